"""Prompt lookup finds the longest and newest match; a draft model stands where its target stands."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_doubles import (
    SHAPE as FEATURES,
)
from runtime_doubles import (
    BundleShape,
    HistoryProgram,
    expected_continuation,
    history_session,
    make_bundle,
    next_token,
)
from speculation_doubles import Rounds, run_rows

from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.reference.adaptive import FixedDrafts
from runtime_shims.reference.draft_bundle import check_draft_bundle
from runtime_shims.reference.generation import generate
from runtime_shims.reference.proposal import Proposal
from runtime_shims.reference.proposers import DraftModel, NgramIndex, PromptLookup
from runtime_shims.reference.request import SourceInput
from runtime_shims.reference.session import Session
from runtime_shims.reference.speculative import Decoding

SHAPE = BundleShape(max_dec=300, max_draft=8, prefill_chunk=9)


def proposed(context: list[int], count: int, source: SourceInput | None = None, max_ngram: int = 3) -> list[int]:
    """What prompt lookup proposes for one row."""
    lookup = PromptLookup(max_ngram)
    lookup.begin([context], source, [])
    return list(lookup.propose([context], [count])[0].tokens)


def test_what_followed_the_newest_tokens_before_is_proposed() -> None:
    assert proposed([1, 2, 3, 4, 5, 9, 1, 2, 3], 2) == [4, 5]
    assert proposed([1, 2, 3, 4, 5, 9, 1, 2, 3], 99) == [4, 5, 9, 1, 2, 3]


def test_the_longest_match_wins_and_of_equals_the_newest() -> None:
    assert proposed([1, 2, 3, 4, 7, 3, 5, 8, 1, 2, 3], 1) == [4]
    assert proposed([2, 3, 4, 9, 2, 3, 5, 9, 2, 3], 1) == [5]


def test_nothing_is_proposed_without_a_match_or_when_nothing_is_asked() -> None:
    assert proposed([1, 2, 3], 4) == []
    assert proposed([1], 4) == []
    assert proposed([1, 1], 0) == []


def test_a_match_is_no_longer_than_asked_for() -> None:
    assert proposed([1, 2, 7, 3, 2, 8, 1, 2], 1, max_ngram=2) == [7]
    assert proposed([1, 2, 7, 3, 2, 8, 1, 2], 1, max_ngram=1) == [8]
    with pytest.raises(UserInputError, match="max_ngram"):
        PromptLookup(0)


def test_encoder_tokens_are_looked_up_too_and_decoder_tokens_come_after_them() -> None:
    source = [[5, 6, 7, 8]]
    assert proposed([0, 5, 6], 4, source) == [7, 8]
    assert proposed([0, 6, 9, 6], 1, source) == [9]


def test_no_match_and_no_proposal_runs_from_the_source_into_the_decoder() -> None:
    assert proposed([7, 8, 4, 6], 4, [[5, 6]]) == []
    assert proposed([6, 7, 5], 4, [[4, 5, 6]]) == [6]


def test_features_of_speech_are_no_tokens() -> None:
    import torch

    assert proposed([3, 4, 3], 1, torch.zeros(1, *FEATURES)) == [4]


def naive(source: list[int], context: list[int], count: int) -> list[int]:
    for size in (3, 2, 1):
        for piece in (context, source):
            for start in range(len(piece) - size - 1, -1, -1):
                if len(context) >= size and piece[start : start + size] == context[-size:]:
                    return piece[start + size : start + size + count]
    return []


tokens = st.lists(st.integers(0, 4), max_size=30)


@settings(max_examples=300, deadline=None)
@given(tokens, tokens.filter(bool), tokens, st.integers(1, 6))
def test_the_index_grows_token_by_token_and_finds_what_a_search_finds(
    source: list[int], prompt: list[int], more: list[int], count: int
) -> None:
    lookup = PromptLookup()
    lookup.begin([prompt], [source], [])
    context = list(prompt)
    for token in [*more, None]:
        assert list(lookup.propose([context], [count])[0].tokens) == naive(source, context, count)
        if token is not None:
            context.append(token)


def test_a_token_costs_the_index_as_many_entries_as_n_grams_have_sizes() -> None:
    index = NgramIndex(3)
    index.extend(range(1000))
    before = len(index._last_seen)
    index.extend([5000])
    assert len(index._last_seen) == before + 3


@pytest.mark.parametrize("drafts", range(1, 9))
def test_a_draft_that_is_the_target_is_accepted_in_full_over_200_tokens(drafts: int) -> None:
    rounds = Rounds()
    how = Decoding(proposer=DraftModel(history_session(SHAPE)[0]), drafts=FixedDrafts(drafts), on_round=rounds)
    prompts = [[5, 6, 7], [9]]
    answers, stats = run_rows(history_session(SHAPE)[0], prompts, how, 200)
    for prompt, answer in zip(prompts, answers, strict=True):
        assert list(answer.tokens) == expected_continuation(prompt, 200)
    assert stats.accepted == stats.evaluated == stats.proposed > 0
    assert stats.corrections == 0
    assert {len(row.proposed) for outcomes in rounds.seen[:-2] for row in outcomes} == {drafts}


def test_a_draft_that_forgets_its_last_token_after_full_acceptance_is_not_accepted_in_full() -> None:
    """The negative control: rolled back one token too few, the draft answers from a context that is not the row's."""
    model = DraftModel(history_session(SHAPE)[0])

    def commit(contexts: list[list[int]]) -> None:
        for row, context in enumerate(contexts):
            if model.session.length(row) < len(context) - 1:  # one behind: pretend that the last draft was written
                model.session.feed([[0] if row == other else [] for other in range(len(contexts))])
            else:
                DraftModel.commit(model, contexts)

    model.commit = commit  # type: ignore[method-assign,assignment]
    _, stats = run_rows(history_session(SHAPE)[0], [[5, 6, 7]], Decoding(proposer=model, drafts=FixedDrafts(4)), 200)
    assert stats.accepted < stats.evaluated


def test_after_a_round_of_k_drafts_the_draft_keeps_n_plus_1_at_most_k() -> None:
    """And its next call takes two tokens after a full acceptance, one otherwise."""
    for right in range(5):
        session, program = history_session(SHAPE)
        model = DraftModel(session)
        model.begin([[5, 6, 7]], None, choosers_of(1))
        context = [5, 6, 7, next_token([5, 6, 7])]
        (proposal,) = model.propose([context], [4])
        before = session.length(0) - 4
        assert before == 3
        after = [*context, *proposal.tokens[:right], 60]
        model.commit([after])
        assert session.length(0) - before == min(right + 1, 4)
        program.steps.clear()
        model.propose([after], [1])
        assert program.steps == [[2 if right == 4 else 1]]


def choosers_of(rows: int) -> list:  # type: ignore[type-arg]
    from runtime_shims.reference.random_stream import draft_stream
    from runtime_shims.reference.sampling import TokenChooser
    from runtime_shims.reference.sampling_settings import SamplingSettings

    rules = make_bundle(SHAPE).manifest.tokens
    return [TokenChooser(SamplingSettings(), rules, 3, draft_stream(0, row)) for row in range(rows)]


def test_a_draft_that_was_not_asked_for_many_rounds_catches_up_in_chunks() -> None:
    session, program = history_session(BundleShape(max_dec=100, max_draft=2, prefill_chunk=4))
    model = DraftModel(session)
    model.begin([[5, 6, 7]], None, choosers_of(1))
    context = [5, 6, 7, *expected_continuation([5, 6, 7], 10)]
    assert model.propose([context], [0]) == [Proposal()]
    program.steps.clear()
    (proposal,) = model.propose([context], [2])
    assert list(proposal.tokens) == expected_continuation(context, 2)
    assert program.steps == [[4], [4], [2], [1]]


def test_a_draft_of_smaller_capacity_drafts_less_and_then_nothing() -> None:
    rounds = Rounds()
    model = DraftModel(history_session(BundleShape(max_dec=12))[0])
    how = Decoding(proposer=model, drafts=FixedDrafts(4), on_round=rounds)
    (answer,), _ = run_rows(history_session(SHAPE)[0], [[5, 6]], how, 30)
    assert list(answer.tokens) == expected_continuation([5, 6], 30)
    assert [len(outcomes[0].proposed) for outcomes in rounds.seen[:4]] == [4, 4, 0, 0]


def test_a_draft_bundle_that_cannot_take_the_prompt_says_so() -> None:
    model = DraftModel(history_session(BundleShape(max_dec=12))[0])
    with pytest.raises(CapacityExceeded, match="the draft bundle cannot take the request: the prompt of row 0 has 13"):
        generate(history_session(SHAPE)[0], [[3] * 13], how=Decoding(proposer=model, drafts=FixedDrafts(2)))


def test_a_draft_with_an_encoder_reads_the_same_source() -> None:
    shape = BundleShape(kind="text_seq2seq", max_dec=60, max_draft=4)
    model = DraftModel(history_session(shape)[0])
    how = Decoding(proposer=model, drafts=FixedDrafts(4))
    sources = [[5, 6, 7], [9]]
    answers, stats = run_rows(history_session(shape)[0], [[0], [0]], how, 20, sources)
    for source, answer in zip(sources, answers, strict=True):
        assert list(answer.tokens) == expected_continuation([0], 20, sum(source))
    assert stats.accepted == stats.proposed > 0


def test_a_draft_of_a_narrow_step_takes_what_its_windows_can_roll_back() -> None:
    """Every draft falls, past the wrap of the draft's window, for as long as the request runs."""
    for chunk, drafts in ((1, 0), (2, 1), (5, 0)):
        small = BundleShape(max_dec=100, max_draft=drafts, prefill_chunk=chunk, window=3)
        bundle = make_bundle(small)

        class Wrong(HistoryProgram):
            def _logits(self, row: int, position: int):  # type: ignore[no-untyped-def]
                return super()._logits(row, position).roll(1)

        model = DraftModel(Session(bundle, Wrong(bundle.manifest.limits)))
        how = Decoding(proposer=model, drafts=FixedDrafts(8))
        (answer,), stats = run_rows(history_session(SHAPE)[0], [[5, 6]], how, 60)
        assert list(answer.tokens) == expected_continuation([5, 6], 60)
        assert stats.accepted == 0 < stats.proposed


def test_a_draft_bundle_must_mean_the_same_by_a_token() -> None:
    target = make_bundle(BundleShape())
    check_draft_bundle(target, make_bundle(BundleShape(max_dec=10, max_batch=1)))
    for changed, part in (
        (BundleShape(kind="text_seq2seq"), "kind text_seq2seq instead of decoder_only"),
        (BundleShape(vocab=50), "vocabulary size 50 instead of 64"),
        (BundleShape(eos=(9,)), r"end-of-sequence tokens \[9\] instead of \[1\]"),
    ):
        with pytest.raises(UserInputError, match=part):
            check_draft_bundle(target, make_bundle(changed))

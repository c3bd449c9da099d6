"""The decoding loop: ragged acceptance, ends inside a block, caches rolled back, and plain decoding as the measure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_doubles import (
    EOS,
    BundleShape,
    drafted_session,
    expected_continuation,
    history_session,
    scripted_session,
)
from speculation_doubles import ForcedProposer, Rounds, run_rows

from runtime_shims.reference.adaptive import FixedDrafts
from runtime_shims.reference.generation import generate
from runtime_shims.reference.proposers import DraftModel, PromptLookup
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.speculative import Decoding
from runtime_shims.reference.stats import RunStats
from runtime_shims.reference.stop_strings import StopStrings

SHAPE = BundleShape(max_dec=80, max_draft=4, prefill_chunk=5, window=6)
PROMPTS = [[5, 6, 7], [9], [20, 21, 22, 23, 24, 25, 26], [40, 41]]


def scripts_of(prompts: list[list[int]], count: int) -> list[list[int]]:
    """Prompts and what a HistoryProgram says after them."""
    return [[*prompt, *expected_continuation(prompt, count)] for prompt in prompts]


class Letters:
    """Text of tokens for stop strings: token 33 is `a`, 34 `b`, and so on; 60 is `xy`."""

    def push(self, token: int) -> str:
        return "xy" if token == 60 else chr(64 + token)


def test_rows_that_accept_0_1_3_and_all_drafts_in_one_round_equal_four_single_runs() -> None:
    scripts = scripts_of(PROMPTS, 60)
    right = [0, 1, 3, 4]
    session, _ = drafted_session(scripts, SHAPE)
    rounds = Rounds()
    how = Decoding(proposer=ForcedProposer(scripts, lambda row, _: right[row]), drafts=FixedDrafts(4), on_round=rounds)
    together, _ = run_rows(session, PROMPTS, how, 30)
    assert [rounds.accepted(row)[0] for row in range(4)] == right
    for row, prompt in enumerate(PROMPTS):
        alone, _ = drafted_session([scripts[row]], SHAPE)
        single = ForcedProposer([scripts[row]], lambda _, __, row=row: right[row])
        (answer,), _ = run_rows(alone, [prompt], Decoding(proposer=single, drafts=FixedDrafts(4)), 30)
        assert answer == together[row]
        assert list(answer.tokens) == scripts[row][len(prompt) : len(prompt) + 30]


def test_a_row_holds_its_context_without_the_newest_token_after_every_round() -> None:
    scripts = scripts_of(PROMPTS, 60)
    session, program = drafted_session(scripts, SHAPE)
    lengths: list[list[int]] = []
    rounds = Rounds()

    def record(outcomes: list) -> None:  # type: ignore[type-arg]
        rounds(outcomes)
        lengths.append([session.length(row) for row in range(4)])

    proposer = ForcedProposer(scripts, lambda row, number: (row + number) % 5)
    run_rows(session, PROMPTS, Decoding(proposer=proposer, drafts=FixedDrafts(4), on_round=record), 30)
    held = [len(prompt) for prompt in PROMPTS]
    for outcomes, found in zip(rounds.seen, lengths, strict=True):
        held = [before + outcome.emitted for before, outcome in zip(held, outcomes, strict=True)]
        assert found == held
    assert max(max(step) for step in program.steps) == 5


def test_feeding_a_rejected_draft_without_rollback_is_noticed_by_the_double() -> None:
    """The negative control of every test with a drafted session."""
    scripts = scripts_of(PROMPTS, 60)
    session, _ = drafted_session(scripts, SHAPE)
    session.rollback = lambda row, count: None  # type: ignore[method-assign]
    proposer = ForcedProposer(scripts, lambda *_: 1)
    with pytest.raises(AssertionError, match="the script has"):
        run_rows(session, PROMPTS, Decoding(proposer=proposer, drafts=FixedDrafts(4)), 30)


@pytest.mark.parametrize("position", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("right", [0, 2, 4])
def test_the_end_of_sequence_ends_a_row_at_every_position_of_a_block(position: int, right: int) -> None:
    """The first token comes from the prompt; EOS is the given token of the block after it, and text would go on."""
    script = [5, 6, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    script[1 + position] = EOS
    session, _ = drafted_session([script], SHAPE)
    proposer = ForcedProposer([script], lambda *_: right)
    (answer,), stats = run_rows(session, [[5]], Decoding(proposer=proposer, drafts=FixedDrafts(4)), 12)
    (plain,) = generate(scripted_session([script], SHAPE)[0], [[5]], max_new_tokens=12)
    assert answer == plain
    assert (answer.stop_reason, answer.tokens) == ("eos", tuple(script[1 : 2 + position]))
    assert session.length(0) == 1 + position
    assert stats.new_tokens == len(answer.tokens)


@pytest.mark.parametrize("budget", range(1, 12))
def test_the_budget_is_kept_to_the_token_and_caps_the_drafts(budget: int) -> None:
    scripts = scripts_of([[5]], 40)
    session, _ = drafted_session(scripts, SHAPE)
    proposer = ForcedProposer(scripts, lambda *_: 4)
    (answer,), stats = run_rows(session, [[5]], Decoding(proposer=proposer, drafts=FixedDrafts(4)), budget)
    assert answer.tokens == tuple(scripts[0][1 : 1 + budget])
    assert answer.stop_reason == "max_new_tokens"
    assert stats.proposed == stats.evaluated == stats.accepted


@pytest.mark.parametrize("length", range(1, 21))
@pytest.mark.parametrize("right", [0, 2, 4])
def test_drafts_are_capped_by_the_capacity_and_exactly_the_capacity_is_used(length: int, right: int) -> None:
    shape = BundleShape(max_dec=20, max_draft=4, window=6)
    scripts = scripts_of([[3] * length], 40)
    session, program = drafted_session(scripts, shape)
    proposer = ForcedProposer(scripts, lambda *_: right)
    (answer,), _ = run_rows(session, [[3] * length], Decoding(proposer=proposer, drafts=FixedDrafts(4)))
    assert answer.stop_reason == "capacity"
    assert answer.tokens == tuple(scripts[0][length:21])
    assert max(program.held[0]) == 19


@pytest.mark.parametrize(("stop", "tokens"), [("KL", 4), ("L", 4), ("JKLM", 5), ("yM", 7), ("KLN", None)])
@pytest.mark.parametrize("right", [0, 1, 4])
def test_a_stop_string_across_tokens_ends_the_row_inside_the_block(stop: str, tokens: int | None, right: int) -> None:
    """Text of the answer: I J K L M xy M O P ..."""
    script = [5, 9, 10, 11, 12, 13, 60, 13, 15, 16, 17, 18, 19, 20, 21, 22]
    session, _ = drafted_session([script], SHAPE)
    how = Decoding(
        proposer=ForcedProposer([script], lambda *_: right), drafts=FixedDrafts(4), stops=StopStrings([stop], Letters)
    )
    (answer,), _ = run_rows(session, [[5]], how, 10)
    assert answer.tokens == tuple(script[1 : 1 + (tokens or 10)])
    assert answer.stop_reason == ("max_new_tokens" if tokens is None else "stop_string")
    assert session.length(0) == len(answer.tokens)


def test_text_of_the_prompt_ends_no_row() -> None:
    script = [10, 11, 12, 13, 14, 15]
    session, _ = scripted_session([script], SHAPE)
    (answer,), _ = run_rows(session, [[10, 11]], Decoding(stops=StopStrings(["JK", "KL"], Letters)), 3)
    assert answer.stop_reason == "max_new_tokens"


def test_the_end_of_sequence_wins_over_a_stop_string_and_both_over_the_budget() -> None:
    script = [5, 10, EOS, 9]
    stops = StopStrings([chr(64 + EOS)], Letters)
    session, _ = scripted_session([script], SHAPE)
    assert run_rows(session, [[5]], Decoding(stops=stops), 2)[0][0].stop_reason == "eos"
    session, _ = scripted_session([script], BundleShape(eos=(50,)))
    assert run_rows(session, [[5]], Decoding(stops=stops), 2)[0][0].stop_reason == "stop_string"


def test_the_statistics_add_up() -> None:
    scripts = scripts_of(PROMPTS, 60)
    session, _ = drafted_session(scripts, SHAPE)
    proposer = ForcedProposer(scripts, lambda row, number: (row + number) % 5)
    rounds = Rounds()
    how = Decoding(proposer=proposer, drafts=FixedDrafts(4), on_round=rounds)
    answers, stats = run_rows(session, PROMPTS, how, [30, 25, 1, 2])
    assert stats.new_tokens == sum(len(answer.tokens) for answer in answers) == 58
    assert stats.new_tokens == 4 + stats.accepted + stats.corrections + stats.bonuses + stats.plain_tokens
    assert stats.steps == len(rounds.seen)
    had_drafts = [outcome for outcomes in rounds.seen for outcome in outcomes if outcome.proposed]
    assert stats.accepted_lengths == [sum(outcome.accepted == length for outcome in had_drafts) for length in range(5)]
    assert stats.accepted <= stats.evaluated <= stats.proposed
    assert stats.corrections == stats.evaluated - stats.accepted
    report = stats.as_dict()["speculation"]
    assert report["acceptance"] == stats.accepted / stats.evaluated  # type: ignore[index]


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    rows = draw(st.lists(st.lists(st.integers(0, 63), min_size=1, max_size=20), min_size=1, max_size=4))
    return rows, draw(st.lists(st.integers(1, 30), min_size=len(rows), max_size=len(rows)))


@settings(max_examples=120, deadline=None)
@given(requests(), st.data())
def test_greedy_speculation_equals_plain_greedy_whatever_is_proposed(
    asked: tuple[list[list[int]], list[int]], data: st.DataObject
) -> None:
    prompts, budgets = asked
    shape = BundleShape(
        max_dec=data.draw(st.integers(22, 40)),
        max_draft=data.draw(st.integers(1, 6)),
        window=data.draw(st.sampled_from([None, 3, 7])),
        eos=(EOS, 7, 20, 33),
    )
    scripts = scripts_of(prompts, 40)
    plain = generate(history_session(shape)[0], prompts, max_new_tokens=budgets)
    pattern = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=9))
    proposers = [
        ForcedProposer(scripts, lambda row, number: pattern[(row * 5 + number) % len(pattern)]),
        PromptLookup(),
        DraftModel(history_session(shape)[0]),
    ]
    for proposer in proposers:
        how = Decoding(proposer=proposer, drafts=FixedDrafts(data.draw(st.integers(1, 6))))
        assert generate(history_session(shape)[0], prompts, max_new_tokens=budgets, how=how) == plain


@settings(max_examples=40, deadline=None)
@given(requests(), st.integers(0, 2**64 - 1), st.booleans())
def test_what_a_row_draws_does_not_depend_on_its_neighbours(
    asked: tuple[list[list[int]], list[int]], seed: int, drafted: bool
) -> None:
    prompts, budgets = asked
    shape = BundleShape(max_dec=40, max_draft=4, window=6)
    drawn = SamplingSettings(temperature=1.5, top_k=20, repetition_penalty=1.1, seed=seed)

    def run(rows: list[list[int]], given: list[int], first_row: int) -> list[object]:
        proposer = DraftModel(history_session(shape)[0]) if drafted else PromptLookup()
        how = Decoding(drawn, proposer, FixedDrafts(3), first_row=first_row)
        return generate(history_session(shape)[0], rows, max_new_tokens=given, how=how)  # type: ignore[return-value]

    together = run(prompts, budgets, 0)
    for row, answer in enumerate(together):
        assert run([prompts[row]], [budgets[row]], row) == [answer]


@settings(max_examples=40, deadline=None)
@given(requests(), st.integers(0, 1000))
def test_certain_drafts_change_no_token_at_any_temperature(asked: tuple[list[list[int]], list[int]], seed: int) -> None:
    prompts, budgets = asked
    shape = BundleShape(max_dec=40, max_draft=4)
    drawn = SamplingSettings(temperature=1.2, seed=seed)
    plain = generate(history_session(shape)[0], prompts, max_new_tokens=budgets, how=Decoding(drawn))
    scripts = scripts_of(prompts, 40)
    for proposer in (PromptLookup(), ForcedProposer(scripts, lambda *_: 2)):
        how = Decoding(drawn, proposer, FixedDrafts(3))
        assert generate(history_session(shape)[0], prompts, max_new_tokens=budgets, how=how) == plain


def test_processors_see_the_accepted_drafts_of_their_own_block() -> None:
    """Without repeated pairs every next token depends on all tokens before it, drafts of the same block included."""
    shape = BundleShape(max_dec=60, max_draft=4)
    picky = SamplingSettings(no_repeat_ngram=1)
    plain = generate(history_session(shape)[0], PROMPTS, max_new_tokens=40, how=Decoding(picky))
    for answer, prompt in zip(plain, PROMPTS, strict=True):
        assert len({*prompt, *answer.tokens}) == len(prompt) + len(answer.tokens)
    stats = RunStats()
    how = Decoding(picky, DraftModel(history_session(shape)[0]), FixedDrafts(4))
    assert generate(history_session(shape)[0], PROMPTS, max_new_tokens=40, stats=stats, how=how) == plain
    assert stats.accepted == stats.evaluated > 0


def test_no_row_ends_early_inside_a_block_either() -> None:
    third = expected_continuation([5], 3)[2]
    shape = BundleShape(max_dec=60, max_draft=4, eos=(third,))
    patient = SamplingSettings(min_new_tokens=6)
    assert len(generate(history_session(shape)[0], [[5]], max_new_tokens=20)[0].tokens) == 3
    plain = generate(history_session(shape)[0], [[5]], max_new_tokens=20, how=Decoding(patient))
    how = Decoding(patient, DraftModel(history_session(shape)[0]), FixedDrafts(4))
    assert generate(history_session(shape)[0], [[5]], max_new_tokens=20, how=how) == plain
    assert third not in plain[0].tokens[:6]

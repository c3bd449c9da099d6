"""Greedy generation: stop reasons, budgets, ragged rows, the callback."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_doubles import (
    EOS,
    VOCAB,
    BundleShape,
    expected_continuation,
    history_session,
    next_token,
    scripted_session,
)

from runtime_shims.contract.errors import CapacityExceeded, UserInputError
from runtime_shims.contract.manifest import ForcedToken
from runtime_shims.reference.generation import generate
from runtime_shims.reference.stats import RunStats

TEXT = BundleShape(kind="text_seq2seq")


def test_greedy_tokens_follow_from_everything_before_them() -> None:
    session, _ = history_session()
    (answer,) = generate(session, [[5, 6, 7]], max_new_tokens=6)
    assert list(answer.tokens) == expected_continuation([5, 6, 7], 6)
    assert answer.stop_reason == "max_new_tokens"
    assert answer.prompt_tokens == 3


def test_the_end_of_sequence_token_is_the_last_one_returned() -> None:
    session, _ = scripted_session([[5, 6, 7, 8, EOS, 9, 9]])
    (answer,) = generate(session, [[5, 6]], max_new_tokens=10)
    assert answer.tokens == (7, 8, EOS)
    assert answer.stop_reason == "eos"


def test_any_token_of_the_eos_list_ends_a_row() -> None:
    session, _ = scripted_session([[5, 6, 7, 40, 9]], BundleShape(eos=(EOS, 40)))
    (answer,) = generate(session, [[5]], max_new_tokens=10)
    assert answer.tokens == (6, 7, 40)


def test_eos_on_the_last_token_of_the_budget_is_reported_as_eos() -> None:
    session, _ = scripted_session([[5, 6, EOS]])
    (answer,) = generate(session, [[5]], max_new_tokens=2)
    assert (answer.tokens, answer.stop_reason) == ((6, EOS), "eos")


def test_a_finished_row_is_idle_while_its_neighbours_go_on() -> None:
    scripts = [[5, 6, EOS, 0, 0], [9, 10, 11, 12, 13, EOS, 0], [20, EOS, 0]]
    session, program = scripted_session(scripts)
    answers = generate(session, [script[:1] for script in scripts], max_new_tokens=10)
    assert [answer.tokens for answer in answers] == [(6, EOS), (10, 11, 12, 13, EOS), (EOS,)]
    assert program.steps == [[1, 1, 1], [1, 1], [0, 1], [0, 1], [0, 1]]


def test_a_finished_row_attends_to_no_encoder_position() -> None:
    scripts = [[0, EOS, 0], [0, 9, 8, EOS]]
    session, program = scripted_session(scripts, TEXT)
    generate(session, [[0], [0]], [[5, 5, 5], [6, 6]], max_new_tokens=10)
    assert program.enc_lengths == [[3, 2], [0, 2], [0, 2]]


def test_every_row_may_have_its_own_budget() -> None:
    session, _ = history_session()
    answers = generate(session, [[5], [6], [7]], max_new_tokens=[1, 4, 2])
    assert [len(answer.tokens) for answer in answers] == [1, 4, 2]
    assert {answer.stop_reason for answer in answers} == {"max_new_tokens"}


def test_generation_uses_exactly_the_capacity() -> None:
    """20 positions hold a prompt of 17 and 3 fed tokens; the fourth new token needs no position."""
    session, program = history_session()
    (answer,) = generate(session, [[3] * 17], max_new_tokens=100)
    assert answer.stop_reason == "capacity"
    assert list(answer.tokens) == expected_continuation([3] * 17, 4)
    assert sorted(program.held[0]) == list(range(20))


def test_a_prompt_that_fills_the_capacity_still_gets_one_token() -> None:
    session, _ = history_session()
    (answer,) = generate(session, [[3] * 20], max_new_tokens=5)
    assert (answer.tokens, answer.stop_reason) == ((next_token([3] * 20),), "capacity")


def test_the_bundle_s_own_budget_holds_when_none_is_given() -> None:
    session, _ = history_session(BundleShape(max_new_tokens=3))
    assert len(generate(session, [[3]])[0].tokens) == 3
    assert len(generate(session, [[3]], max_new_tokens=5)[0].tokens) == 5


def test_without_any_budget_generation_ends_at_the_capacity() -> None:
    session, _ = history_session()
    assert generate(session, [[3]])[0].stop_reason == "capacity"


@pytest.mark.parametrize("budget", [0, -1, [1, 0], [1]])
def test_a_budget_that_makes_no_sense_is_refused_before_anything_runs(budget: int | list[int]) -> None:
    session, program = history_session()
    with pytest.raises(UserInputError):
        generate(session, [[3], [4]], max_new_tokens=budget)
    assert program.steps == []


def test_the_callback_sees_every_token_as_it_is_chosen() -> None:
    session, _ = history_session()
    seen: list[tuple[int, int]] = []
    answers = generate(session, [[5], [6]], max_new_tokens=3, on_token=lambda *event: seen.append(event))
    assert [row for row, _ in seen] == [0, 1, 0, 1, 0, 1]
    for row, answer in enumerate(answers):
        assert tuple(token for index, token in seen if index == row) == answer.tokens


def test_a_callback_that_raises_leaves_the_session_usable() -> None:
    session, _ = history_session()

    def stop(row: int, token: int) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        generate(session, [[5]], max_new_tokens=3, on_token=stop)
    assert len(generate(session, [[5]], max_new_tokens=3)[0].tokens) == 3


def test_forced_and_suppressed_tokens_are_honoured_at_their_positions() -> None:
    unwanted = next_token([0, 33], source_sum=5)
    second_best = (unwanted + 1) % VOCAB
    shape = BundleShape(
        kind="text_seq2seq", forced=(ForcedToken(1, 33),), begin_suppress=(unwanted,), eos=(EOS,)
    )
    session, _ = history_session(shape)
    (answer,) = generate(session, [[0]], [[5]], max_new_tokens=3)
    assert answer.tokens == (33, second_best, next_token([0, 33, second_best], source_sum=5))


def test_the_statistics_count_what_was_run() -> None:
    session, _ = history_session()
    stats = RunStats()
    generate(session, [[5, 6, 7], [8]], max_new_tokens=[4, 2], stats=stats)
    generate(session, [[5]], max_new_tokens=1, stats=stats)
    assert (stats.requests, stats.prefill_tokens, stats.new_tokens) == (2, 5, 7)
    assert (stats.decode_tokens, stats.steps) == (4, 3)
    report = stats.as_dict()
    assert report["peak_rss_bytes"] > 1_000_000  # type: ignore[operator]
    assert report["decode_tokens_per_second"] is not None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 63), min_size=1, max_size=20), st.integers(1, 25)),
        min_size=1,
        max_size=4,
    )
)
def test_a_batch_equals_its_rows_run_alone(rows: list[tuple[list[int], int]]) -> None:
    session, _ = history_session(BundleShape(eos=(EOS, 7, 20, 33)))
    prompts, budgets = [prompt for prompt, _ in rows], [budget for _, budget in rows]
    together = generate(session, prompts, max_new_tokens=budgets)
    for prompt, budget, answer in zip(prompts, budgets, together, strict=True):
        assert generate(session, [prompt], max_new_tokens=budget) == [answer]


def test_more_rows_than_fit_are_refused_before_anything_runs() -> None:
    session, program = history_session()
    with pytest.raises(CapacityExceeded, match="9 prompts"):
        generate(session, [[3]] * 9)
    assert program.steps == []

"""Requests that do not fit are refused in one line, with nothing written and the session usable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from runtime_doubles import SHAPE, BundleShape, HistoryProgram, history_session, next_token

from runtime_shims.contract.errors import CapacityExceeded, FixedCapacityError, UserInputError
from runtime_shims.reference.request import check_tokens
from runtime_shims.reference.session import Session

TEXT = BundleShape(kind="text_seq2seq", max_enc=512)
SPEECH = BundleShape(kind="speech_seq2seq")


def refused(session: Session, program: HistoryProgram, verb: Callable[[], object]) -> str:
    """The one-line message of a refusal that wrote nothing."""
    calls = (len(program.steps), len(program.encoded))
    lengths = [session.length(row) for row in range(session.limits.max_batch)]
    with pytest.raises(FixedCapacityError) as caught:
        verb()
    assert (len(program.steps), len(program.encoded)) == calls
    assert [session.length(row) for row in range(session.limits.max_batch)] == lengths
    message = str(caught.value)
    assert "\n" not in message
    assert isinstance(caught.value, CapacityExceeded | UserInputError)
    return message


def test_a_ninth_row_is_refused_in_one_line() -> None:
    session, program = history_session()
    message = refused(session, program, lambda: session.begin([[3]] * 9))
    assert "9 prompts" in message
    assert "at most 8" in message
    assert "--max-batch" in message


def test_a_513th_encoder_position_is_refused_in_one_line() -> None:
    session, program = history_session(TEXT)
    message = refused(session, program, lambda: session.begin([[0]], source=[[5] * 513]))
    assert "513" in message
    assert "at most 512" in message
    assert "--max-enc" in message
    session.begin([[0]], source=[[5] * 512])
    assert program.encoded[0][1] == [512]


def test_a_prompt_longer_than_the_capacity_is_refused_and_one_that_fills_it_is_not() -> None:
    session, program = history_session()
    message = refused(session, program, lambda: session.begin([[3], [3] * 21]))
    assert "row 1 has 21 tokens" in message
    assert "at most 20" in message
    assert "--max-dec" in message
    session.begin([[3] * 20])
    assert session.prefill().argmax(-1).tolist() == [next_token([3] * 20)]


@pytest.mark.parametrize(
    ("prompts", "part"),
    [([], "no prompt"), ([[3], []], "row 1 is empty"), ([[64]], "0..63"), ([[-1]], "0..63")],
)
def test_a_prompt_that_makes_no_sense_is_refused(prompts: list[list[int]], part: str) -> None:
    session, program = history_session()
    assert part in refused(session, program, lambda: session.begin(prompts))


@pytest.mark.parametrize(
    ("source", "lengths", "part"),
    [
        (None, None, "encoder input"),
        ([[5], [6]], None, "one per prompt"),
        ([[]], None, "at least one"),
        ([[5, 6]], [0], "at least one"),
        ([[5, 6]], [3], "no more than there are"),
        ([[5, 6]], [1, 1], "2 encoder lengths"),
        ([[64]], None, "0..63"),
    ],
)
def test_an_encoder_input_that_makes_no_sense_is_refused(source, lengths, part) -> None:  # type: ignore[no-untyped-def]
    session, program = history_session(TEXT)
    assert part in refused(session, program, lambda: session.begin([[0]], source, lengths))


def test_a_decoder_only_bundle_takes_no_encoder_input() -> None:
    session, program = history_session()
    assert "decoder-only" in refused(session, program, lambda: session.begin([[3]], source=[[5]]))


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ([[5]], "token ids"),
        (torch.zeros(1, 4, 5), "(1, 4, 5)"),
        (torch.zeros(1, *SHAPE, dtype=torch.float64), "float64"),
        (torch.full((1, *SHAPE), float("nan")), "not finite"),
    ],
)
def test_features_of_a_wrong_form_are_refused(source: object, part: str) -> None:
    session, program = history_session(SPEECH)
    assert part in refused(session, program, lambda: session.begin([[0]], source=source))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("step", "part"),
    [
        ([[5]], "2 rows"),
        ([[], []], "every row"),
        ([[5, 5, 5, 5, 5], []], "--max-draft"),
        ([[5], [99]], "0..63"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(step: list[list[int]], part: str) -> None:
    session, program = history_session()
    session.begin([[3], [4]])
    session.prefill()
    assert part in refused(session, program, lambda: session.step(step))


def test_a_refused_request_leaves_the_running_one_in_place() -> None:
    session, program = history_session()
    session.begin([[3, 4]])
    session.prefill()
    refused(session, program, lambda: session.begin([[3]] * 9))
    assert session.step([[5]])[0, 0].argmax().item() == next_token([3, 4, 5])


@pytest.mark.parametrize("token", [-1, 64, 1.5, 3.0, "a", None])
def test_a_token_that_is_no_id_of_the_vocabulary_is_refused(token: object) -> None:
    with pytest.raises(UserInputError, match="the prompt has token id"):
        check_tokens([3, token], 64, "the prompt")  # type: ignore[list-item]

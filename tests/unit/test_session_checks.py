"""Requests that do not fit are refused in one line, with nothing written and the session usable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from runtime_doubles import SHAPE, BundleShape, HistoryProgram, history_session, next_token

from runtime_shims.contract.errors import CapacityExceeded, FixedCapacityError, UserInputError
from runtime_shims.reference.generation import generate
from runtime_shims.reference.session import Session
from runtime_shims.reference.token_rows import check_tokens

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


@pytest.mark.parametrize("token", [-1, 64, 1.5, 3.0, float("nan"), float("inf"), "a", None, True, [3]])
def test_a_token_that_is_no_id_of_the_vocabulary_is_refused(token: object) -> None:
    with pytest.raises(UserInputError, match="the prompt has token id"):
        check_tokens([3, token], 64, "the prompt")  # type: ignore[list-item]


ROWS_AS = {
    "lists": [[3, 4], [5, 6]],
    "tuples": ((3, 4), (5, 6)),
    "an array": np.array([[3, 4], [5, 6]]),
    "an array of 32 bits": np.array([[3, 4], [5, 6]], dtype=np.int32),
    "a tensor": torch.tensor([[3, 4], [5, 6]]),
    "arrays": [np.array([3, 4]), np.array([5, 6], dtype=np.uint8)],
    "tensors": [torch.tensor([3, 4]), torch.tensor([5, 6], dtype=torch.int16)],
    "lists of array items": [list(np.array([3, 4])), list(torch.tensor([5, 6]))],
}


@pytest.mark.parametrize("rows", ROWS_AS.values(), ids=ROWS_AS.keys())
def test_token_rows_may_be_lists_arrays_or_tensors(rows) -> None:  # type: ignore[no-untyped-def]
    session, _ = history_session()
    session.begin(rows)
    assert session.prefill().argmax(-1).tolist() == [next_token([3, 4]), next_token([5, 6])]
    logits = session.step(rows)
    assert logits[:, 1].argmax(-1).tolist() == [next_token([3, 4, 3, 4]), next_token([5, 6, 5, 6])]
    session.rollback(np.int64(0), torch.tensor(2))  # type: ignore[arg-type]
    assert session.length(0) == 2


@pytest.mark.parametrize("rows", ROWS_AS.values(), ids=ROWS_AS.keys())
def test_an_encoder_input_and_its_lengths_may_be_lists_arrays_or_tensors(rows) -> None:  # type: ignore[no-untyped-def]
    session, program = history_session(TEXT)
    for lengths in ([1, 2], np.array([1, 2]), torch.tensor([1, 2]), [np.int64(1), torch.tensor(2)]):
        session.begin([[0], [0]], source=rows, enc_lengths=lengths)  # type: ignore[arg-type]
        values, given = program.encoded[-1]
        assert (values.tolist(), given) == ([[3, 0], [5, 6]], [1, 2])


def test_speech_features_may_be_an_array() -> None:
    session, program = history_session(SPEECH)
    session.begin([[0]], source=np.ones((1, *SHAPE), dtype=np.float32))
    assert torch.equal(program.encoded[0][0], torch.ones(1, *SHAPE))


@pytest.mark.parametrize(
    ("prompts", "part"),
    [
        (None, "the prompts must be a list with one entry per row, got None"),
        (3, "the prompts must be a list with one entry per row, got 3"),
        ("abc", "the prompts must be a list with one entry per row, got 'abc'"),
        ({3: 4}, "the prompts must be a list with one entry per row, got {3: 4}"),
        (np.array([3, 4]), "the prompts must be a list with one entry per row, got int64 of shape (2,)"),
        (np.empty((0, 3), dtype=np.int64), "no prompt was given"),
        (np.empty((1, 0), dtype=np.int64), "the prompt of row 0 is empty"),
        ([3, 4], "the prompt of row 0 must be a list of integers, got 3"),
        ([[3], "ab"], "the prompt of row 1 must be a list of integers, got 'ab'"),
        ([torch.tensor([[3]])], "the prompt of row 0 must be a list of integers, got torch.int64 of shape (1, 1)"),
        (np.array([[3.0]]), "the prompt of row 0 has token id 3.0; ids are the integers 0..63"),
        (torch.tensor([[True]]), "the prompt of row 0 has token id True; ids are the integers 0..63"),
        ([[3, True]], "the prompt of row 0 has token id True; ids are the integers 0..63"),
        ([[[3]]], "the prompt of row 0 has token id [3]; ids are the integers 0..63"),
    ],
)
def test_prompts_that_are_no_rows_of_integers_are_refused(prompts: object, part: str) -> None:
    session, program = history_session()
    assert part in refused(session, program, lambda: session.begin(prompts))  # type: ignore[arg-type]
    assert part in refused(session, program, lambda: generate(session, prompts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lengths", "part"),
    [
        ([1.9], "the encoder length of row 0 must be an integer, got 1.9"),
        ([1.0], "the encoder length of row 0 must be an integer, got 1.0"),
        ([float("nan")], "the encoder length of row 0 must be an integer, got nan"),
        ([True], "the encoder length of row 0 must be an integer, got True"),
        (["1"], "the encoder length of row 0 must be an integer, got '1'"),
        ([-1], "-1 real tokens of 2"),
        ([], "0 encoder lengths for 1 encoder inputs"),
        (1, "enc_lengths must be a list of integers, got 1"),
        (torch.tensor([1.9]), "the encoder length of row 0 must be an integer, got 1.89"),
    ],
)
def test_encoder_lengths_that_are_no_integers_are_refused(lengths: object, part: str) -> None:
    session, program = history_session(TEXT)
    verb = lambda: session.begin([[0]], [[5, 6]], lengths)  # type: ignore[arg-type]  # noqa: E731
    assert part in refused(session, program, verb)


@pytest.mark.parametrize("lengths", [[11.9], [True], [11], [12, 12]])
def test_encoder_lengths_of_speech_are_refused_unless_they_fill_the_encoder(lengths: list[int]) -> None:
    session, program = history_session(SPEECH)
    refused(session, program, lambda: session.begin([[0]], torch.ones(1, *SHAPE), lengths))
    session.begin([[0]], torch.ones(1, *SHAPE), [12])


@pytest.mark.parametrize(
    "step", [None, 5, [5, 6], [[5], None], [[5], [1.5]], [[5], [True]], np.array([5, 6]), [[5], np.array([[6]])]]
)
def test_a_step_that_is_no_rows_of_integers_is_refused(step: object) -> None:
    session, program = history_session()
    session.begin([[3], [4]])
    session.prefill()
    refused(session, program, lambda: session.step(step))  # type: ignore[arg-type]
    assert session.step([[5], []])[0, 0].argmax().item() == next_token([3, 5])


@pytest.mark.parametrize(
    ("row", "count", "part"),
    [
        (0, -1, "count must be an integer >= 0, got -1"),
        (0, 1.0, "count must be an integer >= 0, got 1.0"),
        (0, float("nan"), "count must be an integer >= 0, got nan"),
        (0, True, "count must be an integer >= 0, got True"),
        (0, None, "count must be an integer >= 0, got None"),
        (True, 1, "row must be in 0..7, got True"),
        (-1, 1, "row must be in 0..7, got -1"),
        (0.0, 1, "row must be in 0..7, got 0.0"),
        (8, 0, "row must be in 0..7, got 8"),
    ],
)
def test_a_rollback_that_makes_no_sense_is_refused(row: object, count: object, part: str) -> None:
    session, program = history_session()
    session.begin([[3, 4]])
    session.prefill()
    assert part in refused(session, program, lambda: session.rollback(row, count))  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [1.5, float("nan"), float("inf"), True, "3", [1.0, 2], [True, 2], np.array([0, 1])])
def test_a_budget_that_is_no_whole_number_is_refused(budget: object) -> None:
    session, program = history_session()
    verb = lambda: generate(session, [[3], [4]], max_new_tokens=budget)  # type: ignore[arg-type]  # noqa: E731
    assert "--max-new-tokens" in refused(session, program, verb)


def test_a_budget_may_be_an_array() -> None:
    session, _ = history_session()
    answers = generate(session, np.array([[3], [4]]), max_new_tokens=np.array([1, 2]))
    assert [len(answer.tokens) for answer in answers] == [1, 2]


def test_a_token_of_thousands_of_digits_is_refused_in_one_line() -> None:
    session, program = history_session()
    assert "an int of too many digits" in refused(session, program, lambda: session.begin([[10**5000]]))

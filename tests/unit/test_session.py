"""A session: chunked prefill, ragged steps, rollback, reuse."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_doubles import (
    SHAPE,
    BundleShape,
    expected_continuation,
    history_session,
    make_bundle,
    next_token,
    scripted_session,
)

from runtime_shims.contract.errors import (
    CapacityExceeded,
    FixedCapacityError,
    RollbackTooDeep,
    UserInputError,
)
from runtime_shims.reference.session import Session

TEXT = BundleShape(kind="text_seq2seq")
SPEECH = BundleShape(kind="speech_seq2seq")


def best(logits: torch.Tensor) -> list[int]:
    return logits.argmax(dim=-1).tolist()


def test_a_prompt_of_any_length_gets_the_logits_of_its_last_token() -> None:
    session, program = history_session()
    for length in range(1, 21):
        prompt = [3 + i for i in range(length)]
        session.begin([prompt])
        assert best(session.prefill()) == [next_token(prompt)]
        assert session.length(0) == length
    assert max(max(step) for step in program.steps) == 5


def test_ragged_prompts_are_idle_once_they_have_ended() -> None:
    session, program = history_session()
    prompts = [[5, 6], list(range(10, 22)), [7] * 5]
    session.begin(prompts)
    assert best(session.prefill()) == [next_token(prompt) for prompt in prompts]
    assert program.steps == [[2, 5, 5], [0, 5], [0, 2]]


def test_a_step_takes_rows_of_different_widths() -> None:
    scripts = [[4, 5, 6, 7, 8, 9, 10, 11], [20, 21, 22, 23, 24, 25], [30, 31, 32, 33]]
    session, program = scripted_session(scripts)
    session.begin([script[:2] for script in scripts])
    session.prefill()
    logits = session.step([[6, 7, 8, 9], [22], []])
    assert tuple(logits.shape[:2]) == (2, 4)
    assert best(logits[0]) == [7, 8, 9, 10]
    assert best(logits[1, :1]) == [23]
    assert [session.length(row) for row in range(3)] == [6, 3, 2]
    assert program.steps[-1] == [4, 1]


def test_idle_rows_attend_to_no_encoder_position() -> None:
    session, program = history_session(TEXT)
    session.begin([[0], [0], [0]], source=[[5, 6, 7], [8], [9, 9]])
    session.prefill()
    session.step([[4], [], [6]])
    assert program.encoded[0][0].tolist() == [[5, 6, 7], [8, 0, 0], [9, 9, 0]]
    assert program.encoded[0][1] == [3, 1, 2]
    assert program.enc_lengths == [[3, 1, 2], [3, 0, 2]]


def test_a_padded_source_tensor_with_lengths_is_the_same_as_ragged_ids() -> None:
    session, program = history_session(TEXT)
    padded = torch.tensor([[5, 6, 7, 60], [8, 60, 60, 60]])
    session.begin([[0], [0]], source=padded, enc_lengths=[3, 1])
    assert program.encoded[0][0].tolist() == [[5, 6, 7], [8, 0, 0]]


def test_speech_features_fill_the_encoder() -> None:
    session, program = history_session(SPEECH)
    features = torch.ones(2, *SHAPE)
    session.begin([[0, 3], [0, 3]], source=features)
    assert program.encoded[0][1] == [12, 12]
    assert best(session.prefill()) == [next_token([0, 3], 24)] * 2


def test_feeding_writes_any_number_of_tokens_and_answers_to_the_last() -> None:
    session, program = history_session()
    session.begin([[5, 6], [7], [8]])
    session.prefill()
    program.steps.clear()
    more = [[9], [], list(range(20, 32))]
    logits = session.feed(more)
    assert best(logits[0:1]) == [next_token([5, 6, 9])]
    assert best(logits[2:3]) == [next_token([8, *more[2]])]
    assert program.steps == [[1, 0, 5], [0, 0, 5], [0, 0, 2]]
    assert [session.length(row) for row in range(3)] == [3, 1, 13]
    assert [session.high_water(row) for row in range(3)] == [3, 1, 13]


def test_feeding_more_than_fits_is_refused_before_anything_is_written() -> None:
    session, program = history_session()
    session.begin([[5, 6], [7]])
    with pytest.raises(UserInputError, match="begin and prefill"):
        session.feed([[8], [9]])
    session.prefill()
    program.steps.clear()
    with pytest.raises(CapacityExceeded, match=r"row 1 holds 1 tokens and cannot take 20 more.*--max-dec"):
        session.feed([[8], [3] * 20])
    assert program.steps == []
    assert best(session.feed([[8], [3] * 19])[1:]) == [next_token([7] + [3] * 19)]


def test_a_request_that_was_ended_is_none() -> None:
    session, _ = history_session()
    session.begin([[5, 6]])
    session.prefill()
    session.end()
    assert (session.rows, session.length(0), session.high_water(0)) == (0, 0, 0)
    with pytest.raises(UserInputError, match="begin"):
        session.step([[3]])


def test_the_high_water_mark_stays_where_it_was_when_tokens_are_taken_back() -> None:
    session, _ = history_session()
    session.begin([[5, 6]])
    session.prefill()
    session.step([[7, 8]])
    session.rollback(0, 2)
    assert (session.length(0), session.high_water(0)) == (2, 4)


def test_a_rolled_back_row_forgets_what_it_was_fed() -> None:
    session, _ = history_session()
    session.begin([[3, 4, 5]])
    session.prefill()
    session.step([[50, 51, 52]])
    session.rollback(0, 2)
    assert best(session.step([[9]])[0]) == [next_token([3, 4, 5, 50, 9])]


def test_a_rollback_below_the_floor_is_refused_and_changes_nothing() -> None:
    session, _ = history_session(BundleShape(window=4))
    session.begin([[3] * 15])
    session.prefill()
    assert session.max_rollback(0) == 5
    with pytest.raises(RollbackTooDeep, match="at most 5"):
        session.rollback(0, 6)
    assert session.length(0) == 15


def test_a_second_request_sees_nothing_of_the_first() -> None:
    session, _ = history_session()
    session.begin([[9] * 12, [8] * 7])
    session.prefill()
    session.begin([[3]])
    assert session.rows == 1
    assert best(session.prefill()) == [next_token([3])]


def test_a_failed_step_makes_the_session_unusable_until_reset() -> None:
    session, program = history_session()
    session.begin([[3, 4]])
    session.prefill()
    program.fail_next = True
    with pytest.raises(FixedCapacityError, match="decode failed"):
        session.step([[5]])
    program.fail_next = False
    for verb in (lambda: session.step([[5]]), lambda: session.begin([[3]]), lambda: session.rollback(0, 1)):
        with pytest.raises(FixedCapacityError, match=r"decode failed.*call reset"):
            verb()
    session.reset()
    assert program.resets == 1
    session.begin([[3, 4]])
    assert best(session.prefill()) == [next_token([3, 4])]


def test_a_failed_encoder_makes_the_session_unusable_until_reset() -> None:
    session, program = history_session(TEXT)
    program.fail_next = True
    with pytest.raises(FixedCapacityError):
        session.begin([[0]], source=[[5]])
    with pytest.raises(FixedCapacityError, match="call reset"):
        session.prefill()


def test_an_interrupted_step_makes_the_session_unusable_too() -> None:
    session, program = history_session()
    session.begin([[3, 4]])

    def interrupted(inputs: object) -> None:
        raise KeyboardInterrupt

    program.decode = interrupted  # type: ignore[assignment,method-assign]
    with pytest.raises(KeyboardInterrupt):
        session.prefill()
    with pytest.raises(FixedCapacityError, match=r"KeyboardInterrupt.*call reset"):
        session.prefill()


def test_a_step_needs_a_prefilled_prompt() -> None:
    session, _ = history_session()
    with pytest.raises(UserInputError, match="begin"):
        session.prefill()
    with pytest.raises(UserInputError, match="begin and prefill"):
        session.step([[3]])
    session.begin([[3]])
    with pytest.raises(UserInputError, match="begin and prefill"):
        session.step([[3]])


def test_the_step_tensors_are_allocated_once() -> None:
    session, program = history_session()
    pointers = set()
    decode = program.decode

    def recording(inputs):  # type: ignore[no-untyped-def]
        pointers.add(tuple(tensor.data_ptr() for tensor in inputs.as_tuple()))
        return decode(inputs)

    program.decode = recording  # type: ignore[method-assign]
    session.begin([[3] * 7, [4]])
    session.prefill()
    session.step([[5, 6], [7]])
    session.begin([[8]])
    session.prefill()
    assert len(pointers) == 1


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_sequence_of_steps_and_rollbacks_equals_a_plain_list(data: st.DataObject) -> None:
    shape = BundleShape(window=data.draw(st.sampled_from([None, 3, 6])), max_dec=40)
    session, _ = history_session(shape)
    tokens = st.integers(0, 63)
    rows = data.draw(st.lists(st.lists(tokens, min_size=1, max_size=12), min_size=1, max_size=3))
    held = [list(row) for row in rows]
    session.begin(rows)
    assert best(session.prefill()) == [next_token(row) for row in held]
    for _ in range(data.draw(st.integers(0, 12))):
        row = data.draw(st.integers(0, len(held) - 1))
        if data.draw(st.booleans()):
            count = data.draw(st.integers(0, session.max_rollback(row)))
            if count == len(held[row]):
                continue
            session.rollback(row, count)
            del held[row][len(held[row]) - count :]
            continue
        widths = [data.draw(st.integers(0, min(4, 40 - len(row_held)))) for row_held in held]
        if not any(widths):
            continue
        step = [data.draw(st.lists(tokens, min_size=w, max_size=w)) for w in widths]
        logits = session.step(step)
        for index, new in enumerate(step):
            for column in range(len(new)):
                assert best(logits[index, column : column + 1]) == [
                    next_token(held[index] + new[: column + 1])
                ]
            held[index] += new
    assert [session.length(index) for index in range(len(held))] == [len(row) for row in held]


def test_exactly_the_capacity_can_be_written() -> None:
    session, program = history_session()
    session.begin([[3] * 19])
    session.prefill()
    assert session.can_extend(0, 1)
    session.step([[4]])
    assert not session.can_extend(0, 1)
    steps = len(program.steps)
    with pytest.raises(CapacityExceeded, match="max-dec"):
        session.step([[4]])
    assert len(program.steps) == steps
    assert session.length(0) == 20


def test_one_full_row_does_not_stop_its_neighbour() -> None:
    session, _ = history_session()
    session.begin([[3] * 20, [4]])
    session.prefill()
    with pytest.raises(CapacityExceeded, match="row 0"):
        session.step([[5], [6]])
    assert session.length(1) == 1
    assert best(session.step([[], [6]])[1]) == [next_token([4, 6])]


def test_a_session_keeps_only_what_the_manifest_says() -> None:
    bundle = make_bundle(BundleShape(max_batch=2))
    session = Session(bundle, history_session()[1])
    assert session.limits.max_batch == 2
    assert expected_continuation([3], 1) == [next_token([3])]

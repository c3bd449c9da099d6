"""What a program file refuses, and that it can be used to its last position and again after a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from runtime_shims.contract.errors import CapacityExceeded, FixedCapacityError, RollbackTooDeep
from runtime_shims.reference.generation import generate
from runtime_shims.reference.program import StepInputs
from runtime_shims.reference.session import Session
from tests.parity.programs import GEMMA, GEMMA_ONNX, GEMMA_PORTABLE, LLAMA_ONNX, LLAMA_PORTABLE, PROGRAMS, Lowered, on
from tests.parity.schedules import in_chunks


@on(*PROGRAMS)
def test_exactly_the_capacity_can_be_used_and_one_token_more_is_refused(lowered: Lowered) -> None:
    session, capacity = lowered.session, lowered.session.limits.max_dec
    request = lowered.request([capacity], [5])
    text = request.texts[0]
    for length in (capacity - 1, capacity):
        session.begin([text[:length]], request.session_source)
        answers = [(0, length - 1, session.prefill()[0].clone())]
        if length < capacity:
            answers.append((0, length, session.step([text[length:]])[0, 0].clone()))
        lowered.check(answers, request)
        assert not session.can_extend(0, 1)
        with pytest.raises(CapacityExceeded, match=f"capacity is {capacity}.*--max-dec") as refused:
            session.step([text[:1]])
        assert "\n" not in str(refused.value)
    with pytest.raises(CapacityExceeded, match=f"{capacity + 1} tokens.*at most {capacity}.*--max-dec"):
        session.begin([[*text, 5]], request.session_source)
    session.rollback(0, 1)
    lowered.check([(0, capacity - 1, session.step([text[-1:]])[0, 0])], request)


@on(*PROGRAMS)
def test_generation_stops_at_the_capacity_with_every_position_used(lowered: Lowered) -> None:
    """One token more than fits is chosen: the last one needs no position of its own."""
    request = lowered.request([lowered.session.limits.max_dec - 2], [5])
    manifest = lowered.bundle.manifest
    endless = replace(manifest, tokens=replace(manifest.tokens, eos=()))
    session = Session(replace(lowered.bundle, manifest=endless), lowered.program)
    (got,) = generate(session, request.texts, request.session_source)
    source = None if request.sources is None else request.sources[0]
    assert got.stop_reason == "capacity"
    assert got.tokens == lowered.stock.greedy(request.texts[0], source, 3, endless.tokens)


@on(*PROGRAMS)
def test_one_row_or_one_position_too_many_is_refused_in_one_line_and_the_session_goes_on(lowered: Lowered) -> None:
    session, limits = lowered.session, lowered.session.limits
    good, rows = lowered.request([9, 4], [6, 3]), limits.max_batch + 1
    refusals = [
        (lowered.request([3] * rows, [3] * rows), f"{rows} prompts.*at most {limits.max_batch} rows.*--max-batch"),
        (lowered.request([limits.max_dec + 1], [3]), f"{limits.max_dec + 1} tokens.*--max-dec"),
    ]
    if limits.max_enc is not None and limits.source_shape is None:
        one_more = lowered.request([3], [limits.max_enc + 1])
        refusals.append((one_more, f"{limits.max_enc + 1} tokens.*at most {limits.max_enc}.*--max-enc"))
    for request, message in refusals:
        with pytest.raises(CapacityExceeded, match=message) as refused:
            session.begin(request.texts, request.session_source)
        assert "\n" not in str(refused.value)
        lowered.check(in_chunks(session, good, 4), good)


@on(*PROGRAMS)
def test_a_step_wider_than_the_program_is_refused_before_anything_is_written(lowered: Lowered) -> None:
    """By the session, and by the program itself: the runtime below checks the size of a tensor as a whole only."""
    session, limits = lowered.session, lowered.session.limits
    request = lowered.request([20], [6])
    answers = in_chunks(session, request, 2)
    before = [next(answers) for _ in range(9)]
    with pytest.raises(CapacityExceeded, match="--max-draft"):
        session.step([[5] * (limits.max_logit_rows + 1)])
    one = torch.ones(1, dtype=torch.int64)
    wide = StepInputs(
        tokens=torch.ones(1, limits.max_step + 1, dtype=torch.int64),
        positions=one,
        step_lengths=one,
        logit_rows=one[:, None],
        enc_lengths=None if limits.max_enc is None else one,
    )
    with pytest.raises(CapacityExceeded, match="step tokens"):
        lowered.program.decode(wide)
    lowered.check([*before, *answers], request)


@on(GEMMA, GEMMA_PORTABLE, GEMMA_ONNX)
def test_a_rollback_below_the_floor_is_refused_and_nothing_was_changed(lowered: Lowered) -> None:
    """The floor follows from the high-water mark: what a first rollback took back, a second cannot have."""
    session, request, deepest = lowered.session, lowered.request([40]), lowered.session.limits.max_step
    text = request.texts[0]
    session.begin([text[:30]])
    session.prefill()
    assert session.max_rollback(0) == deepest
    session.rollback(0, 2)
    with pytest.raises(RollbackTooDeep, match=f"at most {deepest - 2} can be.*--max-draft") as refused:
        session.rollback(0, deepest - 1)
    assert "\n" not in str(refused.value)
    session.rollback(0, deepest - 2)
    held = session.length(0)
    logits = session.step([text[held : held + 4]])[0]
    lowered.check([(0, held + place, logits[place]) for place in range(4)], request)


@on(LLAMA_PORTABLE, LLAMA_ONNX)
def test_a_cache_that_never_wrapped_can_be_rolled_back_to_its_first_token(lowered: Lowered) -> None:
    session, request = lowered.session, lowered.request([200])
    text = request.texts[0]
    session.begin([text])
    session.prefill()
    session.rollback(0, 199)
    logits = session.step([text[1:5]])[0]
    lowered.check([(0, 1 + place, logits[place]) for place in range(4)], request)


class FailsOnce:
    """A program whose next step fails, as one does whose inputs the runtime refuses."""

    def __init__(self, program) -> None:
        self.program, self.failed = program, False

    def decode(self, inputs):
        if not self.failed:
            self.failed = True
            raise FixedCapacityError("model.pte: decode failed")
        return self.program.decode(inputs)

    def reset(self) -> None:
        self.program.reset()


@on(GEMMA, GEMMA_ONNX)
def test_a_failed_step_is_refused_until_reset_and_a_reset_serves_again(lowered: Lowered) -> None:
    session, request = Session(lowered.bundle, FailsOnce(lowered.program)), lowered.request([20])
    session.begin(request.texts)
    for _ in range(2):
        with pytest.raises(FixedCapacityError, match="failed"):
            session.prefill()
    session.reset()
    lowered.check(in_chunks(session, request, 4), request)

"""Negative controls: each fault that the parity tests must notice is built in on purpose, and they do notice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from runtime_shims.contract.cache_geometry import CacheGeometry
from runtime_shims.reference.executorch_program import ExecutorchProgram
from runtime_shims.reference.program import Program, StepInputs
from runtime_shims.reference.session import Session
from tests.parity.programs import T5, Lowered, on
from tests.parity.schedules import Comparison, Request, compare, in_chunks
from tests.parity.support import WRONG, Capacity, StockModel, module_session
from tests.support.tiny_configs import WINDOW


class WindowSlots(CacheGeometry):
    """A ring of `window` slots, without room for the step that is being written."""

    @property
    def slots(self) -> int:
        return self.reach


def wider(geometry: CacheGeometry) -> CacheGeometry:
    """A window that lets one position too many be seen."""
    return replace(geometry, reach=geometry.reach + (geometry.kind == "sliding"))


def window_slots(geometry: CacheGeometry) -> CacheGeometry:
    if geometry.kind == "full":
        return geometry
    return WindowSlots(geometry.kind, geometry.reach, geometry.max_step)


def chunked(session: Session, case: str, width: int = 4) -> Comparison:
    stock = StockModel(case)
    request = Request.random(stock, [40, 22])
    return compare(in_chunks(session, request, width), request.expected(stock))


@pytest.mark.parametrize("attention", ["fused", "portable", "onnx"])
@pytest.mark.parametrize("case", ["mistral", "gemma3"])
def test_a_ring_of_window_slots_is_wrong_in_wide_steps_only(case: str, attention: str) -> None:
    """Token by token it looks right, which is how such rings pass."""
    session = module_session(case, attention, geometry=window_slots)
    assert chunked(session, case, width=1).passed
    found = chunked(session, case, width=4)
    assert not found.passed
    assert found.difference > WRONG
    assert chunked(module_session(case, attention), case, width=4).passed


@pytest.mark.parametrize("attention", ["fused", "portable", "onnx"])
@pytest.mark.parametrize("case", ["mistral", "gemma3"])
def test_a_window_that_is_one_too_wide_is_wrong(case: str, attention: str) -> None:
    found = chunked(module_session(case, attention, geometry=wider), case)
    assert not found.passed
    assert found.difference > WRONG


@pytest.mark.parametrize("attention", ["fused", "portable", "onnx"])
def test_a_needle_is_seen_at_the_last_position_of_the_window_and_not_one_behind_it(attention: str) -> None:
    """Every layer looks `window - 1` positions back, so the whole model looks that far once per layer."""
    layers, text = 2, StockModel("mistral").logits_TV  # the stock model has the same horizon
    farthest = layers * (WINDOW - 1)
    query = 30

    def change(session: Session, distance: int) -> float:
        rows = torch.arange(5, 5 + query + 1).tolist()
        changed = [60 if place == query - distance else token for place, token in enumerate(rows)]
        answers = {row: logits for row, place, logits in in_chunks(session, Request((rows, changed), None), 3)}
        assert (text(rows)[query] - text(changed)[query]).abs().max() > 0 or distance > farthest
        return float((answers[0] - answers[1]).abs().max())

    session = module_session("mistral", attention)
    assert change(session, farthest) > 1e-4
    assert change(session, farthest + 1) == 0.0
    assert change(module_session("mistral", attention, geometry=wider), farthest + 1) > 1e-4


@pytest.mark.parametrize("attention", ["fused", "portable", "onnx"])
@pytest.mark.parametrize("case", ["mistral", "gemma3"])
def test_rolling_back_below_the_floor_reads_what_was_overwritten(case: str, attention: str) -> None:
    """Two rollbacks of `max_step` each, as a floor that follows the current length would allow."""
    stock, session = StockModel(case), module_session(case, attention)
    request = Request.random(stock, [44])
    text, expected = request.texts[0], request.expected(stock)
    for depth, passes in ((session.limits.max_step, True), (2 * session.limits.max_step, False)):
        session.begin([text[:35]])
        session.prefill()
        session._cursor._lengths[0] -= depth
        held = session.length(0)
        logits = session.step([text[held : held + 1]])[0]
        assert compare([(0, held, logits[0].clone())], expected).passed is passes


@dataclass
class AllLengthsFull(Program):
    """A program that is told that every encoder output fills its cache: the lengths were lost on the way."""

    program: Program
    max_enc: int

    def encode(self, source: Tensor, enc_lengths: Tensor) -> None:
        self.program.encode(source, enc_lengths)

    def decode(self, inputs: StepInputs) -> Tensor:
        return self.program.decode(replace(inputs, enc_lengths=torch.full_like(inputs.enc_lengths, self.max_enc)))

    def reset(self) -> None:
        self.program.reset()


@on(T5)
def test_a_program_that_does_not_get_the_encoder_lengths_is_wrong(lowered: Lowered) -> None:
    request = lowered.request([10, 10], [12, 30])
    lowered.check(in_chunks(lowered.session, request, 3), request)
    forgetful = Session(lowered.bundle, AllLengthsFull(lowered.program, lowered.session.limits.max_enc))
    found = compare(in_chunks(forgetful, request, 3), request.expected(lowered.stock), "xnnpack")
    assert not found.passed
    assert found.difference > WRONG


@dataclass
class LoadedTwice(Program):
    """Each method from a load of its own: `decode` has cross caches that `encode` never wrote."""

    encoder: Program
    decoder: Program

    def encode(self, source: Tensor, enc_lengths: Tensor) -> None:
        self.encoder.encode(source, enc_lengths)

    def decode(self, inputs: StepInputs) -> Tensor:
        return self.decoder.decode(inputs)

    def reset(self) -> None:
        self.encoder.reset()
        self.decoder.reset()


@on(T5)
def test_methods_loaded_one_by_one_do_not_share_their_caches(lowered: Lowered) -> None:
    request = lowered.request([10, 10], [12, 30])
    apart = LoadedTwice(lowered.program, ExecutorchProgram(lowered.bundle, lowered.bundle.program()))
    answers = in_chunks(Session(lowered.bundle, apart), request, 3)
    found = compare(answers, request.expected(lowered.stock), "xnnpack")
    assert found.difference > WRONG


def test_a_whole_prompt_wider_than_the_step_is_refused_by_the_operator_and_by_the_plan() -> None:
    """Two windows in one call would overwrite their own first tokens."""
    session = module_session("mistral", "fused", Capacity(prefill_chunk=5))
    tokens = torch.full((1, 2 * WINDOW), 5)
    lengths, zero = torch.tensor([2 * WINDOW]), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(ValueError, match="16 tokens was given and the cache has 12 slots"):
        session._program.decode(StepInputs(tokens, zero, lengths, zero[:, None], None))

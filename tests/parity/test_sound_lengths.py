"""Sound of any length equals stock transformers, each row as if it were alone and unpadded, whatever lies beside it.

Stock transformers is the reference row by row: in its own padded batches a row hears its padding. Moonshine normalises
over it; Speech2Text's convolutions reach into it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from exporter.bundle.golden import make_golden
from exporter.bundle.model_configs import greedy_settings
from exporter.bundle.tolerances import TOLERANCES
from exporter.cache.attention_binding import StepContext
from exporter.hf_models.opening import OpenBundle
from exporter.hf_models.speech import FixedCapacityModelForSpeechSeq2Seq
from exporter.models.sound_frames import NormOfRow
from exporter.verify.parity import ModuleProgram
from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.reference.replay import golden_lengths, replay
from runtime_shims.reference.session import Session
from tests.parity.programs import MOONSHINE, MOONSHINE_ONNX, Lowered, on
from tests.parity.schedules import Request, compare, start, wander
from tests.parity.support import WRONG, Capacity, Planned, StockModel
from tests.support.tiny_models import HEARS_SOUND, SOUND, build, stock_input

CAPACITY = Capacity(max_batch=4, max_enc=24, max_dec=60)
ENDS = {
    "moonshine": ([1278, 1279], [958, 959, 384 * 7, 384 * 7 + 1]),
    "speech_to_text": ([1039, 1040], [559, 560, 719, 720]),
}
"""Lengths around the end of a position, and around those of frames."""


def most(case: str) -> int:
    return SOUND[case].most_samples(24)


def noise(samples: int, seed: int = 0) -> Tensor:
    """Sound float32 [N] of falling loudness, so that its end weighs less than its beginning."""
    generator = torch.Generator().manual_seed(1000 * seed + samples)
    return torch.randn(samples, generator=generator) * torch.linspace(0.4, 0.05, samples)


def request_of(lengths: Sequence[int]) -> Request:
    texts = tuple((2, *((7 * row + 3 * place) % 50 + 5 for place in range(10))) for row in range(len(lengths)))
    return Request(texts, tuple(noise(samples, row) for row, samples in enumerate(lengths)))


def check(session: Session, stock: StockModel, lengths: Sequence[int], backend: str = "eager") -> None:
    """A ragged batch of sound, fed in ragged steps."""
    request = request_of(lengths)
    answers = [*start(session, request, [1 + row for row in range(len(lengths))]), *wander(session, request, seed=1)]
    found = compare(answers, request.expected(stock), backend)
    assert found.passed, (lengths, found)


@pytest.mark.parametrize("attention", ["fused", "portable", "onnx"])
@pytest.mark.parametrize("case", HEARS_SOUND)
def test_rows_of_any_length_equal_the_row_alone(case: str, attention: str) -> None:
    """At both ends of a position, at both ends of a frame, the shortest, the longest, and lengths at random."""
    planned, stock = Planned.of(case, attention, CAPACITY), StockModel(case)
    session, chance, least = planned.session(planned.methods), random.Random(4), SOUND[case].window
    positions, frames = ENDS[case]
    check(session, stock, [least, most(case), *positions])
    check(session, stock, [most(case)])
    check(session, stock, frames)
    for rows in (2, 3, 4):
        check(session, stock, [chance.randint(least, most(case)) for _ in range(rows)])


@pytest.mark.parametrize("case", HEARS_SOUND)
def test_stock_transformers_hears_the_padding_of_a_batch(case: str) -> None:
    """What makes the row alone the reference: the same row, masked, beside a longer one."""
    model, heard = build(case), stock_input(case, noise(1900))
    padded = torch.zeros(1, stock_input(case, noise(most(case))).shape[1], *heard.shape[2:])
    mask = torch.zeros(padded.shape[:2], dtype=torch.int64)
    padded[:, : heard.shape[1]], mask[:, : heard.shape[1]] = heard, 1
    tokens, name = torch.tensor([[2, 7, 9]]), model.get_encoder().main_input_name
    alone = model(**{name: heard}, decoder_input_ids=tokens).logits
    beside = model(**{name: padded}, attention_mask=mask, decoder_input_ids=tokens).logits
    assert float((alone - beside).abs().max()) > WRONG


def test_a_norm_over_a_row_leaves_its_padding_out() -> None:
    torch.manual_seed(0)
    norm, convolution, step = nn.GroupNorm(1, 6), nn.Conv1d(1, 6, 127, 64), StepContext()
    norm.requires_grad_(False)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    frames = torch.randn(2, 40, 6).tanh() + 3
    step.begin(sample_lengths=torch.tensor([127 + 64 * 11, 127 + 64 * 39 + 63]))
    found = NormOfRow(norm, convolution, step)(frames)
    for row, count in ((0, 12), (1, 40)):
        alone = norm(frames[row : row + 1, :count].transpose(1, 2)).transpose(1, 2)
        assert torch.allclose(found[row, :count], alone[0], atol=1e-5)
    over_all = norm(frames.transpose(1, 2)).transpose(1, 2)
    assert float((found[0, :12] - over_all[0, :12]).abs().max()) > 0.01


@pytest.mark.parametrize(
    ("case", "more"), [("moonshine", 400), ("moonshine", 64), ("speech_to_text", 640), ("speech_to_text", 160)]
)
def test_a_row_that_hears_more_than_it_has_differs(case: str, more: int) -> None:
    """The control: the same program, told of samples that are padding, for a position or a frame more."""
    planned, stock = Planned.of(case, "portable", CAPACITY), StockModel(case)
    request = request_of([1300, most(case)])

    class Deaf(ModuleProgram):
        def encode(self, source: Tensor, lengths: Tensor) -> None:
            super().encode(source, lengths + torch.tensor([more, 0]))

    session = Session(Bundle(Path("."), planned.manifest()), Deaf(planned.methods))
    answers = list(start(session, request, [1, 1]))
    assert not compare(answers[:1], request.expected(stock)).passed


@pytest.mark.parametrize("case", HEARS_SOUND)
def test_golden_requests_hold_sound_of_several_lengths_and_are_repeated(case: str) -> None:
    planned, longest, least = Planned.of(case, "portable", CAPACITY), most(case), SOUND[case].window
    assert planned.plan.speech is not None
    lengths = [longest, least, (longest + least) // 2, (longest + 2 * least) // 3]
    assert golden_lengths(4, planned.plan.speech, SOUND[case]) == lengths
    golden = make_golden(build(case), planned.plan, planned.rules.tokens)
    result = replay(planned.session(planned.methods), golden)
    assert result.tokens_passed
    assert result.logits_difference < TOLERANCES["float32", "eager"].absolute(10.0)
    assert result.tokens == 32


@pytest.mark.parametrize("case", HEARS_SOUND)
def test_such_a_bundle_is_a_model_of_transformers_that_takes_sound(case: str) -> None:
    planned, lengths = Planned.of(case, "portable", CAPACITY), [5_000, SOUND[case].window, 9_000]
    session, settings = planned.session(planned.methods), greedy_settings(planned.model.generation_config)
    opened = OpenBundle("tiny", Bundle(Path("."), session.manifest), session, planned.model.config, settings, None)
    model, stock = FixedCapacityModelForSpeechSeq2Seq.of_bundle(opened), build(case)
    for row, samples in enumerate(lengths):
        alone = noise(samples, row)
        wanted = stock.generate(stock_input(case, alone), max_new_tokens=10)
        assert torch.equal(model.generate(alone[None], max_new_tokens=10), wanted)


@on(MOONSHINE, MOONSHINE_ONNX)
def test_one_program_hears_any_length_in_any_batch(lowered: Lowered) -> None:
    longest, chance = SOUND["moonshine"].most_samples(60), random.Random(9)
    ends = [959, longest - 1, longest - 384]
    for lengths in ([895], [longest, 895, 5000], [longest], [1279, 1278], ends, [895, 896, 1022]):
        check(lowered.session, lowered.stock, lengths, lowered.program_case.backend)
    for rows in (3, 1, 2):
        lengths = [chance.randint(895, longest) for _ in range(rows)]
        check(lowered.session, lowered.stock, lengths, lowered.program_case.backend)

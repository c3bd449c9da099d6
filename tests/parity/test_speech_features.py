"""A program's features equal those of transformers' extractor: as a module, traced, and lowered for every backend.

Shape legend: B rows, N samples, M mel bins, F frames.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import WhisperFeatureExtractor

from exporter.bundle.golden import golden_features
from exporter.bundle.tolerances import features_tolerance
from exporter.lower.executorch import lower_to_executorch
from exporter.lower.executorch_rows import with_row_operators
from exporter.lower.executorch_weights import with_stored_weights
from exporter.models.speech_features import FrontEnd, LogMelFeatures, front_end_of
from exporter.trace.graph_checks import check_graphs
from exporter.trace.methods import program_methods
from exporter.trace.trace import ExportedProgram, trace_method
from exporter.verify.parity import Stages, first_features_difference, within
from runtime_shims.native import load_operator_library, operator_library_path
from runtime_shims.reference.golden_features import golden_waveform, replay_features
from tests.parity.programs import WHISPER, WHISPER_ONNX, WHISPER_PORTABLE, Lowered, ProgramStore, on
from tests.parity.support import Planned
from tests.support.tiny_models import extractor as tiny_extractor

LIBRARY = pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed")
FORMS = [
    pytest.param("fused", "xnnpack", marks=LIBRARY),
    pytest.param("fused", "portable", marks=LIBRARY),
    ("portable", "xnnpack"),
    ("portable", "portable"),
]
WHISPERS = {
    "whisper": WhisperFeatureExtractor(),
    "128 mel bins": WhisperFeatureExtractor(feature_size=128),
    "one second": tiny_extractor(),
    "frames apart": WhisperFeatureExtractor(chunk_length=1, n_fft=256, hop_length=300),
    "a window of whole hops": WhisperFeatureExtractor(chunk_length=1, hop_length=100),
    "an odd window": WhisperFeatureExtractor(chunk_length=1, n_fft=401),
    "a last hop that is cut": WhisperFeatureExtractor(chunk_length=1, sampling_rate=16_050),
}


def front_end(extractor: WhisperFeatureExtractor) -> FrontEnd:
    made = front_end_of(extractor, tuple(wanted(extractor, torch.zeros(1, extractor.n_samples)).shape[1:]))
    assert made is not None
    return made


def sounds(samples: int) -> dict[str, Tensor]:
    """Waveforms float32 [N] that a front end may get wrong, at its ends above all."""
    time = torch.arange(samples) / 16_000
    noise = torch.randn(samples, generator=torch.Generator().manual_seed(0))
    impulse, ends, short = (torch.zeros(samples) for _ in range(3))
    impulse[samples // 3] = 1.0
    ends[[0, 1, samples - 2, samples - 1]] = torch.tensor([0.9, -0.3, 0.7, -1.0])
    short[: samples // 10] = 0.1 * noise[: samples // 10]
    return {
        "silence": torch.zeros(samples),
        "noise": 0.1 * noise,
        "faint noise": 1e-6 * noise,
        "full scale": noise.clamp(-1.0, 1.0),
        "an impulse": impulse,
        "the ends alone": ends,
        "short": short,
        "a tone": 0.5 * torch.sin(2 * torch.pi * 440 * time),
        "a rising tone": 0.5 * torch.sin(2 * torch.pi * 3000 * time * time / time[-1]),
        "a constant": torch.full((samples,), 0.25),
    }


def wanted(extractor: WhisperFeatureExtractor, waveform_BN: Tensor) -> Tensor:
    """The extractor's features [B, M, F], each row alone."""
    rate = extractor.sampling_rate
    rows = [extractor(row.numpy(), sampling_rate=rate, return_tensors="pt").input_features for row in waveform_BN]
    return torch.cat(rows)


def check(got: Tensor, expected: Tensor, backend: str) -> None:
    assert got.shape == expected.shape
    allowed = features_tolerance(backend).absolute(float(expected.abs().max()))
    assert float((got - expected).abs().max()) <= allowed


@pytest.mark.parametrize("name", WHISPERS)
def test_the_module_equals_the_extractor_on_every_sound(name: str) -> None:
    extractor = WHISPERS[name]
    module = LogMelFeatures(front_end(extractor))
    waveforms = torch.stack(list(sounds(extractor.n_samples).values()))
    check(module(waveforms), wanted(extractor, waveforms), "eager")


def one_sample_late(waveform_BN: Tensor) -> Tensor:
    return waveform_BN.roll(1, 1)


def without_mirrors(module: LogMelFeatures) -> None:
    mirrored = module.mirrored
    module.mirrored = lambda waveform, length: mirrored(waveform, length).roll(3, 1)  # type: ignore[method-assign]


@pytest.mark.parametrize("name", ["whisper", "one second"])
def test_a_sample_late_or_other_ends_are_seen(name: str) -> None:
    """The control: the comparison above is not so loose that they would pass."""
    extractor = WHISPERS[name]
    waveforms = torch.stack(list(sounds(extractor.n_samples).values()))
    expected, module = wanted(extractor, waveforms), LogMelFeatures(front_end(extractor))
    with pytest.raises(AssertionError):
        check(module(one_sample_late(waveforms)), expected, "eager")
    without_mirrors(module)
    with pytest.raises(AssertionError):
        check(module(waveforms), expected, "eager")


@pytest.mark.parametrize(
    "settings", [{"dither": 1e-4}, {"padding_value": 0.5}, {"feature_size": 81}, {"chunk_length": 29}]
)
def test_settings_that_a_method_cannot_repeat_make_none(settings: dict[str, Any]) -> None:
    assert front_end_of(WhisperFeatureExtractor(), (80, 3000)) is not None
    assert front_end_of(WhisperFeatureExtractor(**settings), (80, 3000)) is None


def test_other_extractors_make_no_method() -> None:
    class Other(WhisperFeatureExtractor):
        pass

    assert front_end_of(None, (80, 3000)) is None
    assert front_end_of(Other(), (80, 3000)) is None
    assert front_end_of(WhisperFeatureExtractor(), None) is None


@pytest.mark.parametrize("case", [WHISPER, WHISPER_PORTABLE], ids=str)
def test_the_traced_method_equals_the_extractor_for_any_batch(programs: ProgramStore, case: Any) -> None:
    planned = programs.planned(case)
    check_graphs(planned.traced)
    assert list(planned.traced) == ["features", "encode", "decode"]
    traced = planned.traced["features"].module()
    waveforms = torch.stack(list(sounds(16_000).values()))
    for rows in range(1, planned.plan.max_batch + 1):
        check(traced(waveforms[:rows]), wanted(tiny_extractor(), waveforms[:rows]), "eager")


@on(WHISPER, WHISPER_ONNX)
def test_a_program_s_features_equal_the_extractor_s_whatever_runs_between(lowered: Lowered) -> None:
    session, waveforms = lowered.session, torch.stack(list(sounds(16_000).values()))
    expected = wanted(tiny_extractor(), waveforms)
    request = lowered.request([12, 9, 5], [0, 0, 0])
    for rows in (3, 1, 2):
        features = session.features(waveforms[:rows])
        session.begin([[61]] * rows, features)
        session.prefill()
        check(features, expected[:rows], lowered.program_case.backend)
        check(session.features(waveforms[-rows:].numpy()), expected[-rows:], lowered.program_case.backend)
    before = session.begin(request.texts, request.session_source), session.prefill().clone()
    session.begin(request.texts, request.session_source)
    session.features(waveforms[:3])
    assert torch.equal(session.prefill(), before[1])


@on(WHISPER, WHISPER_ONNX)
def test_the_rows_of_a_batch_do_not_hear_each_other(lowered: Lowered) -> None:
    """Loud beside silent: what is cut off is measured from each row's own loudest value."""
    waveforms = sounds(16_000)
    loud, faint = waveforms["full scale"], waveforms["faint noise"]
    alone = [lowered.session.features(row[None]) for row in (loud, faint)]
    together = lowered.session.features(torch.stack([faint, loud, faint]))
    assert torch.equal(together, torch.cat([alone[1], alone[0], alone[1]]))


def traced_alone(extractor: WhisperFeatureExtractor, rows: int) -> ExportedProgram:
    """The traced method of a full-size front end, without a model."""
    planned = Planned.of("whisper", "portable")
    plan = replace(planned.plan, source_shape=(extractor.feature_size, extractor.nb_max_frames))
    plan = replace(plan, recipe=replace(plan.recipe, max_batch=rows))
    features, *_ = program_methods(plan, front_end(extractor))
    return trace_method(LogMelFeatures(front_end(extractor)), features)


def loaded(path: Path) -> Callable[[Tensor], Tensor]:
    """The method of a program file without a manifest."""
    from executorch.extension.pybindings import _C

    load_operator_library()
    program = _C._load_program(str(path))
    method = program.load_method("features")
    return lambda waveform: method.call((waveform,), clone_outputs=True)[0]


@pytest.mark.parametrize(("attention", "backend"), FORMS)
def test_thirty_seconds_equal_the_extractor_on_every_backend(attention: Any, backend: str, tmp_path: Path) -> None:
    extractor = WHISPERS["whisper"]
    traced = {"features": traced_alone(extractor, 2)}
    if attention == "fused":
        traced = with_stored_weights({name: with_row_operators(program) for name, program in traced.items()})
    program = lower_to_executorch(traced, backend, attention, tmp_path / "features.pte")
    assert program.planned_bytes < 2 * 16_000_000  # what Whisper's smallest encoder plans is larger
    features, waveforms = loaded(program.path), list(sounds(extractor.n_samples).values())
    for first, second in zip(waveforms[::2], waveforms[1::2], strict=True):
        pair = torch.stack([first, second])
        check(features(pair), wanted(extractor, pair), backend)
        check(features(pair[1:]), wanted(extractor, pair[1:]), backend)


@on(WHISPER)
def test_a_front_end_that_differs_is_named_with_its_rung(lowered: Lowered, programs: ProgramStore) -> None:
    planned = programs.planned(WHISPER)
    golden = golden_features(tiny_extractor(), planned.front_end, planned.plan)
    found = replay_features(lowered.session, within(golden, "xnnpack"))
    assert found.passed
    assert (len(golden.rows), found.values) == (2, 512)
    fine, broken = Stages(planned.methods, planned.traced), _Louder()
    for stages, said in (
        (Stages({"features": broken}, planned.traced), "the features of the cached rung differ"),
        (Stages(planned.methods, {"features": _Traced(broken)}), "the features of the traced rung differ"),
        (fine, "the features of the xnnpack program differ"),
    ):
        line = first_features_difference(lowered.bundle, golden, stages, "xnnpack", found)
        assert line.startswith(f"{said} from the extractor's: by ")


class _Louder(nn.Module):
    """A front end that hears everything twice as loud."""

    def forward(self, waveform_BN: Tensor) -> Tensor:
        return LogMelFeatures(front_end(tiny_extractor()))(2.0 * waveform_BN)


class _Traced:
    """Stands for an exported program."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def module(self) -> nn.Module:
        return self._module


def test_the_golden_sound_is_made_of_integers() -> None:
    rows = golden_waveform(3, 48_000)
    assert rows.dtype == torch.float32
    for row, sample in ((0, 0), (0, 5), (1, 20_000), (2, 47_999), (2, 12_345)):
        level = [0.5, 0.0, 2.0**-11, 2.0**-5][(4 * sample // 48_000 + row) % 4]
        value = level * (((sample * sample + row * sample) % 2003 - 1001) / 1001)
        assert float(rows[row, sample]) == float(torch.tensor(value, dtype=torch.float64).float())
    assert not torch.equal(rows[0], rows[1])

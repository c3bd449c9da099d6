"""Sound of any length through a session and the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from runtime_doubles import BundleShape, HistoryProgram, history_session, make_bundle, next_token, write_bundle
from test_run_model_cli import run
from test_session_checks import refused

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.manifest import Speech
from runtime_shims.contract.sound_positions import SoundPositions
from runtime_shims.reference.adaptive import measure
from runtime_shims.reference.draft_bundle import check_draft_bundle
from runtime_shims.reference.proposers import PromptLookup

pytestmark = pytest.mark.usefixtures("programs")

POSITIONS = SoundPositions(window=25, stride=10)
SOUND = Speech(sampling_rate=100, samples=POSITIONS.most_samples(12), positions=POSITIONS)
SHAPE = BundleShape(kind="speech_seq2seq", start=(0, 3), max_batch=2, max_enc=12, speech=SOUND)


def test_rows_of_sound_are_laid_in_hops_with_zeros_behind_them() -> None:
    session, program = history_session(SHAPE)
    rows = [torch.ones(25), torch.full((44,), 2.0)]
    session.begin([[0, 3]] * 2, rows)
    assert session.prefill().argmax(-1).tolist() == [next_token([0, 3], 25), next_token([0, 3], 88)]
    ((waveform, samples),) = program.encoded
    assert waveform.shape == (2, 5, 10)
    assert waveform.flatten(1).sum(1).tolist() == [25.0, 88.0]
    assert not waveform.flatten(1)[0, 25:].any()
    assert samples == [25, 44]
    assert program.enc_lengths == [[1, 2]]
    session.begin([[0, 3]], np.ones((1, 140), dtype=np.float32))
    session.prefill()
    assert program.encoded[-1][0].shape == (1, 14, 10)
    assert program.enc_lengths[-1] == [12]


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ([torch.ones(24)], "row 0 has 0.24 s of sound, the encoder takes at least 0.25 s; give it more"),
        ([torch.ones(0)], "row 0 has 0 s of sound, the encoder takes at least 0.25 s"),
        ([torch.ones(30), torch.ones(141)], "row 1 has 1.41 s of sound, the encoder takes at most 1.4 s; cut it or"),
        ([torch.ones(30)] * 2, "2 encoder inputs for 1 prompts; give one per prompt"),
        ([torch.ones(1, 30)], "row 0: sound is float32 of shape [samples], got torch.float32 (1, 30)"),
        ([torch.ones(30, dtype=torch.float64)], "got torch.float64 (30,)"),
        ([[0.5] * 30], "row 0: sound is float32 of shape [samples], got list"),
        (torch.ones(1, 3, 10), "sound is a list of float32 arrays, one per row, got Tensor"),
        ([torch.full((30,), float("inf"))], "row 0: the sound holds values that are not finite"),
        (None, "a request needs an encoder input per prompt"),
    ],
)
def test_sound_that_does_not_fit_is_refused_in_one_line(source: object, part: str) -> None:
    session, program = history_session(SHAPE)
    prompts = [[0, 3]] * (2 if "row 1" in part else 1)
    assert part in refused(session, program, lambda: session.begin(prompts, source))  # type: ignore[arg-type]


def test_lengths_beside_sound_and_features_of_it_are_refused() -> None:
    session, program = history_session(SHAPE)
    message = refused(session, program, lambda: session.begin([[0, 3]], [torch.ones(30)], [1]))
    assert message == "sound says itself how long it is: leave the lengths out"
    message = refused(session, program, lambda: session.features(torch.ones(1, 140)))
    assert message == "the bundle makes no speech features: its programs take the sound itself"


def test_drafts_are_looked_up_in_no_sound_and_timed_on_the_shortest() -> None:
    session, program = history_session(SHAPE)
    for sound in ([torch.ones(30)], torch.ones(1, 30), np.ones((1, 30), dtype=np.float32)):
        PromptLookup().begin([(0, 3)], sound, [])
    measure(session, 1)
    assert program.encoded[-1][1] == [25]


def test_a_draft_that_hears_in_other_steps_is_refused() -> None:
    ours = make_bundle(SHAPE)
    other = SoundPositions(window=25, stride=5)
    speech = replace(SOUND, positions=other, samples=other.most_samples(12))
    check_draft_bundle(ours, make_bundle(replace(SHAPE, max_batch=1)), is_own=True)
    with pytest.raises(UserInputError, match="5 samples a position at 100 Hz instead of 10 samples a position"):
        check_draft_bundle(ours, make_bundle(replace(SHAPE, speech=speech)), is_own=True)


def bundle_of(directory: Path) -> Path:
    return write_bundle(directory / "sound", SHAPE, {"model.xnnpack.pte": ("program", b"pte")})


def recording(path: Path, samples: int, level: float, rate: int = 100) -> Path:
    soundfile.write(path, np.full(samples, level, dtype=np.float32), rate, subtype="FLOAT")
    return path


def test_recordings_of_several_lengths_run_in_one_batch(
    tmp_path: Path, programs: list[HistoryProgram], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = recording(tmp_path / "a.wav", 30, 1.0), recording(tmp_path / "b.wav", 140, -1.0)
    audio = ("--audio", first, "--audio", second, "--max-new-tokens", 1, "--json")
    assert run("generate", bundle_of(tmp_path), *audio) == 0
    rows = json.loads(capsys.readouterr().out)["generations"]
    assert [row["tokens"] for row in rows] == [[next_token([0, 3], 30)], [next_token([0, 3], -140)]]
    assert [samples for _, samples in programs[-1].encoded] == [[30, 140]]


@pytest.mark.parametrize(
    ("samples", "part"),
    [
        (24, "a.wav has 0.24 s of sound, the encoder takes at least 0.25 s; give it more"),
        (141, "a.wav has 1.4 s of sound, the encoder takes at most 1.4 s; cut it with --audio-start"),
        (0, "a.wav has no sound to transcribe"),
    ],
)
def test_a_recording_that_is_too_short_or_too_long_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], samples: int, part: str
) -> None:
    sound = recording(tmp_path / "a.wav", samples, 0.5)
    assert run("generate", bundle_of(tmp_path), "--audio", sound) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert part in line


def test_a_recording_of_another_rate_is_heard_at_the_encoders(
    tmp_path: Path, programs: list[HistoryProgram], capsys: pytest.CaptureFixture[str]
) -> None:
    sound = recording(tmp_path / "a.wav", 480, 0.5, rate=400)
    assert run("generate", bundle_of(tmp_path), "--audio", sound, "--max-new-tokens", 1) == 0
    capsys.readouterr()
    assert [samples for _, samples in programs[-1].encoded] == [[120]]


def test_inspect_shows_how_much_sound_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", bundle_of(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert "1.4 s at 100 Hz" in shown
    assert "encode(waveform float32[b, h, 10], sample_lengths int64[b])" in shown
    assert "h 3..14" in shown

"""Sound through a session and the command line, where the program makes its features and where it does not."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from runtime_doubles import SHAPE, BundleShape, HistoryProgram, history_session, make_bundle, next_token, write_bundle
from test_run_model_cli import golden, run
from test_session_checks import refused

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.contract.errors import BundleCorrupt
from runtime_shims.contract.manifest import Speech
from runtime_shims.contract.pieces import Pieces, to_json
from runtime_shims.reference.audio import AudioCut, Waveforms
from runtime_shims.reference.golden import from_json, read_golden
from runtime_shims.reference.golden import to_json as golden_json
from runtime_shims.reference.golden_features import GoldenFeatures, golden_waveform, replay_features

pytestmark = pytest.mark.usefixtures("programs")

SOUND = Speech(sampling_rate=100, samples=400, positions=None)
SPEECH = BundleShape(kind="speech_seq2seq", start=(0, 3), max_batch=2, speech=SOUND)
SILENT = replace(SPEECH, speech=None)


def test_a_session_makes_features_of_arrays_and_tensors_while_a_request_goes_on() -> None:
    session, program = history_session(SPEECH)
    session.begin([[0, 3]], torch.ones(1, *SHAPE))
    waveform = torch.arange(400.0).expand(2, -1)
    assert torch.equal(session.features(waveform), waveform[:, :24].reshape(2, *SHAPE))
    assert torch.equal(session.features(waveform.numpy()), session.features(waveform))
    assert session.prefill().argmax(-1).tolist() == [next_token([0, 3], 24)]
    assert len(program.encoded) == 1


@pytest.mark.parametrize(
    ("waveform", "part"),
    [
        (torch.zeros(1, 399), "a row of sound has 400 samples, zeros behind shorter ones; got 399"),
        (torch.zeros(3, 400), "3 rows of sound were given, the bundle takes 1 to 2 at once"),
        (torch.zeros(0, 400), "0 rows of sound were given"),
        (torch.zeros(400), "sound is float32 of shape [rows, 400], got torch.float32 (400,)"),
        (torch.zeros(1, 400, dtype=torch.float64), "got torch.float64 (1, 400)"),
        (np.zeros((1, 400)), "got float64 (1, 400)"),
        ([[0.0] * 400], "sound is float32 of shape [rows, 400], got list"),
        (torch.full((1, 400), float("nan")), "values that are not finite"),
    ],
)
def test_sound_of_another_form_is_refused_in_one_line(waveform: torch.Tensor, part: str) -> None:
    session, program = history_session(SPEECH)
    assert part in refused(session, program, lambda: session.features(waveform))


@pytest.mark.parametrize("shape", [SILENT, BundleShape()])
def test_a_bundle_that_makes_no_features_says_so(shape: BundleShape) -> None:
    session, program = history_session(shape)
    message = refused(session, program, lambda: session.features(torch.zeros(1, 400)))
    assert message == "the bundle makes no speech features: its programs take them ready-made"


@pytest.mark.parametrize("seconds", [0.5, 3.0, 4.0])
def test_a_waveform_is_the_file_and_zeros_behind_it(tmp_path: Path, seconds: float) -> None:
    count = round(seconds * 100)
    soundfile.write(tmp_path / "a.wav", np.full(count, 0.5, dtype=np.float32), 100, subtype="FLOAT")
    (waveform,) = Waveforms(SOUND).of_file(tmp_path / "a.wav", AudioCut(0.0, None))
    assert torch.equal(waveform[:count], torch.full((count,), 0.5))
    assert torch.equal(waveform[count:], torch.zeros(400 - count))


def sound_bundle(tmp_path: Path, golden_bytes: bytes | None = None) -> Path:
    contents = {"model.xnnpack.pte": ("program", b"pte")}
    if golden_bytes is not None:
        contents["golden.json"] = ("golden", golden_bytes)
    names = Pieces(tuple(f" t{token}".encode() for token in range(64)), (0,), strip_leading_space=True)
    contents["pieces.json"] = ("tokenizer", to_json(names).encode())
    return write_bundle(tmp_path / "speech", SPEECH, contents)


def test_a_recording_goes_through_the_program_and_its_text_through_pieces(
    tmp_path: Path,
    programs: list[HistoryProgram],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither an extractor nor a tokenizer is in this bundle."""
    bundle = sound_bundle(tmp_path)
    for name, level in (("a", 1.0), ("b", -1.0), ("c", 2.0)):
        soundfile.write(tmp_path / f"{name}.wav", np.full(300, level, dtype=np.float32), 100, subtype="FLOAT")
    audio = [part for name in ("a", "b") for part in ("--audio", tmp_path / f"{name}.wav")]
    assert run("generate", bundle, *audio, "--max-new-tokens", 1, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["generations"]
    assert [row["tokens"] for row in rows] == [[next_token([0, 3], 24)], [next_token([0, 3], -24)]]
    assert [row["text"] for row in rows] == [f"t{row['tokens'][0]}" for row in rows]
    assert [tuple(features.shape) for features, _ in programs[-1].encoded] == [(2, *SHAPE)]
    assert run("generate", bundle, "--audio", tmp_path / "c.wav", "--max-new-tokens", 2, "--stream") == 0
    assert capsys.readouterr().out.startswith(f"t{next_token([0, 3], 48)} t")


def test_a_recording_of_such_a_bundle_needs_no_transformers(tmp_path: Path) -> None:
    """In a process of its own: the library alone takes a second to load."""
    soundfile.write(tmp_path / "a.wav", np.zeros(300, dtype=np.float32), 100)
    code = """
import sys
from pathlib import Path
from runtime_shims.commands import generate, inputs
from runtime_shims.contract.bundle_reader import read_bundle
options = inputs.InputOptions((), None, False, None, (), (Path(sys.argv[2]),), 0.0, None)
(row,), decoder = generate._read(read_bundle(sys.argv[1]), options)
print(row.features, tuple(row.waveform.shape), type(decoder).__name__, "transformers" in sys.modules)
"""
    arguments = [sys.executable, "-c", code, str(sound_bundle(tmp_path)), str(tmp_path / "a.wav")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.stdout == "None (1, 400) PieceDecoder False\n", done.stderr


def test_sound_longer_than_the_program_takes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(500, dtype=np.float32), 100)
    assert run("generate", sound_bundle(tmp_path), "--audio", tmp_path / "a.wav") == 2
    assert "5.0 s of sound, the encoder takes at most 4 s" in capsys.readouterr().err


def test_a_damaged_table_of_pieces_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = sound_bundle(tmp_path)
    (bundle / "pieces.json").write_bytes((bundle / "pieces.json").read_bytes().replace(b'"bytes"', b'"texts"'))
    assert run("generate", bundle, "--ids", "5", "--no-verify") == 2  # a speech bundle takes sound
    soundfile.write(tmp_path / "a.wav", np.zeros(300, dtype=np.float32), 100)
    capsys.readouterr()
    assert run("generate", bundle, "--audio", tmp_path / "a.wav", "--no-verify") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert 'pieces.json: kind: expected "bytes", got "texts"' in line


def recorded(shift: float = 0.0) -> GoldenFeatures:
    """What HistoryProgram makes of two rows, one value of the second moved."""
    features = golden_waveform(2, SOUND.samples)[:, :24].reshape(-1, *SHAPE).round()
    rows = [[(mel, frame, float(row[mel, frame])) for mel in range(4) for frame in range(6)] for row in features]
    rows[1][7] = (1, 1, rows[1][7][2] + shift)
    return GoldenFeatures(tuple(tuple(row) for row in rows), 0.25)


def with_features(features: GoldenFeatures | None) -> bytes:
    request = from_json(golden([0, 3]).replace(b'"features_seed": null', b'"features_seed": 5'))
    return golden_json(replace(request, features=features)).encode()


def test_golden_features_read_back_as_they_were() -> None:
    assert from_json(with_features(recorded())).features == recorded()
    assert from_json(with_features(None)).features is None


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (b'"features": 3', "features: expected an object with exactly the keys rows, tolerance_abs"),
        (b'"features": {"rows": 3, "tolerance_abs": 1}', "features.rows: expected a list"),
        (b'"features": {"rows": [[[1, 2]]], "tolerance_abs": 1}', "features.rows: expected mel bin, frame and value"),
        (b'"features": {"rows": [[[1, 2, "x"]]], "tolerance_abs": 1}', "features.rows: expected a finite number"),
        (b'"features": {"rows": [[[1, -2, 1]]], "tolerance_abs": 1}', "features.rows: expected an integer"),
        (b'"features": {"rows": [], "tolerance_abs": null}', "features.tolerance_abs: expected a finite number"),
    ],
)
def test_malformed_golden_features_are_refused(tmp_path: Path, wrong: bytes, part: str) -> None:
    bundle = read_bundle(sound_bundle(tmp_path, with_features(None).replace(b'"features": null', wrong)))
    with pytest.raises(BundleCorrupt) as refusal:
        read_golden(bundle)
    assert part in str(refusal.value)


def test_verify_has_a_rung_for_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shift, passed in ((0.0, True), (0.5, False)):
        bundle = sound_bundle(tmp_path / str(shift), with_features(recorded(shift)))
        run("verify", bundle, "--json")
        rungs = json.loads(capsys.readouterr().out.split("\nverification")[0])["rungs"]
        assert (rungs[-1]["check"], rungs[-1]["passed"]) == ("features", passed)
        assert "tolerance 0.25" in rungs[-1]["detail"]


def test_golden_features_that_a_bundle_does_not_make_are_refused() -> None:
    session, program = history_session(SILENT)
    assert "the bundle makes none" in refused(session, program, lambda: replay_features(session, recorded()))
    session, program = history_session(SPEECH)
    outside = GoldenFeatures((((4, 0, 0.0),),), 1.0)
    assert "feature 4, 0; there are 4 x 6" in refused(session, program, lambda: replay_features(session, outside))


def test_inspect_shows_how_much_sound_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", sound_bundle(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert "4 s at 100 Hz" in shown
    assert "features(waveform float32[b, 400])" in shown
    assert make_bundle(SPEECH).manifest.speech == SOUND

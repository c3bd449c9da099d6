"""bundle-runner over programs that hear sound of any length: Python's tokens, and its words for what does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from runtime_shims.cli import main
from tests.runner.runner import Runner, python_answer
from tests.runner.test_parity import PENALIZED, SAMPLED

LENGTH = ("--max-new-tokens", 40)


def sound(path: Path, samples: int, rate: int = 16_000) -> Path:
    """A WAV file of noise that falls."""
    noise = np.random.default_rng(samples).standard_normal(samples) * np.linspace(0.2, 0.02, samples)
    soundfile.write(path, noise.astype(np.float32), rate, subtype="FLOAT")
    return path


def audio(*paths: Path) -> list[object]:
    return [part for path in paths for part in ("--audio", path)]


@pytest.mark.parametrize("options", [(), ("--speculate", "prompt-lookup"), (*SAMPLED, *PENALIZED)], ids=str)
def test_recordings_of_several_lengths_are_heard_as_in_python(
    runner: Runner, hearing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple
) -> None:
    """The shortest, the longest and one between, in one batch and alone."""
    lengths = {"short": 895, "long": 384 * 62, "between": 9_000}
    paths = [sound(tmp_path / f"{name}.wav", samples) for name, samples in lengths.items()]
    arguments = (*audio(*paths), *LENGTH, *options)
    found = runner.answer(hearing, [], *arguments)["generations"]
    assert found == python_answer(capsys, hearing, [], *arguments)["generations"]
    assert len({tuple(row["tokens"]) for row in found}) == 3
    if options == ():
        alone = [runner.answer(hearing, [], *audio(path), *LENGTH)["generations"][0] for path in paths]
        assert [row["tokens"] for row in alone] == [row["tokens"] for row in found]


def test_a_recording_of_another_rate_is_heard_at_the_encoders(runner: Runner, hearing: Path, tmp_path: Path) -> None:
    (row,) = runner.answer(hearing, [], *audio(sound(tmp_path / "a.wav", 8_000, rate=8_000)), *LENGTH)["generations"]
    assert len(row["tokens"]) == 40


@pytest.mark.parametrize(
    ("samples", "part"),
    [
        (894, "a.wav has 0.055875 s of sound, the encoder takes at least 0.0559375 s; give it more"),
        (384 * 62 + 16, "a.wav has 1.5 s of sound, the encoder takes at most 1.488 s; cut it with --audio-start"),
        (0, "a.wav has no sound to transcribe: it lasts 0 s"),
    ],
)
def test_what_does_not_fit_is_refused_in_pythons_words(
    runner: Runner, hearing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], samples: int, part: str
) -> None:
    path = sound(tmp_path / "a.wav", samples)
    ended = runner.run("--bundle", hearing, "--audio", path)
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert part in line
    assert main(["generate", str(hearing), "--audio", str(path)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.partition(": ")[2] == line.partition(": ")[2]


def test_auto_speculation_is_timed_on_the_shortest_sound(runner: Runner, hearing: Path, tmp_path: Path) -> None:
    arguments = (*audio(sound(tmp_path / "a.wav", 9_000)), *LENGTH)
    plain = runner.answer(hearing, [], *arguments)["generations"]
    assert runner.answer(hearing, [], *arguments, "--speculate", "auto")["generations"] == plain

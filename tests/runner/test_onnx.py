"""bundle-runner over ONNX programs: Python's tokens, from text, drafts, sound and batches of every size."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runner.runner import TOOL, Runner, needs_onnx, python_answer
from tests.runner.test_parity import LENGTH, PENALIZED, ROWS, SAMPLED
from tests.support.small_t5 import load, strings

pytestmark = needs_onnx

COUNTS = ("rounds", "proposed", "accepted", "accepted_lengths", "corrections", "bonuses", "emitted")


def equal_python(capsys: Any, bundle: Path, rows: list[list[int]], *options: object) -> dict[str, Any]:
    """The runner's answer, once it is Python's: tokens, and what became of every draft."""
    found, wanted = Runner().answer(bundle, rows, *options), python_answer(capsys, bundle, rows, *options)
    assert found["generations"] == wanted["generations"]
    for count in COUNTS:
        assert found["stats"]["speculation"][count] == wanted["stats"]["speculation"][count], count
    return found


@pytest.mark.parametrize("settings", [(), SAMPLED, (*SAMPLED, *PENALIZED)], ids=str)
@pytest.mark.parametrize("speculate", [(), ("--speculate", "prompt-lookup")], ids=str)
def test_ragged_rows_through_wrapping_windows_equal_python(
    onnx_gemma3: Path, capsys: pytest.CaptureFixture[str], settings: tuple, speculate: tuple
) -> None:
    equal_python(capsys, onnx_gemma3, ROWS, *LENGTH, *settings, *speculate)


@pytest.mark.parametrize("settings", [(), SAMPLED], ids=str)
def test_a_draft_bundle_drafts_and_is_taken_back_as_in_python(
    onnx_gemma3: Path, onnx_draft: Path, capsys: pytest.CaptureFixture[str], settings: tuple
) -> None:
    options = (*LENGTH, *settings, "--speculate", "draft", "--draft-bundle", onnx_draft)
    counts = equal_python(capsys, onnx_gemma3, ROWS[:3], *options)["stats"]["speculation"]
    assert counts["accepted"] > 0
    assert counts["plain_tokens"] > 0  # behind the draft's last position


def test_a_batch_equals_its_rows_alone(runner: Runner, onnx_gemma3: Path) -> None:
    options = (*LENGTH, "--speculate", "prompt-lookup")
    together = runner.tokens(onnx_gemma3, ROWS, *options)
    assert together == [runner.tokens(onnx_gemma3, [row], *options)[0] for row in ROWS]


def test_both_backends_say_the_same_and_draft_for_each_other(
    runner: Runner, gemma3: Path, onnx_gemma3: Path, onnx_draft: Path
) -> None:
    wanted = runner.tokens(gemma3, ROWS[:3], *LENGTH)
    assert runner.tokens(onnx_gemma3, ROWS[:3], *LENGTH) == wanted
    assert runner.tokens(gemma3, ROWS[:3], *LENGTH, "--speculate", "draft", "--draft-bundle", onnx_draft) == wanted
    assert runner.tokens(onnx_gemma3, ROWS[:3], *LENGTH, "--speculate", "draft", "--draft-bundle", gemma3) == wanted


def test_rows_of_a_file_run_in_batches_of_four_and_of_what_is_left(
    runner: Runner, onnx_gemma3: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[number % 60 + 2, 7, 5] for number in range(11)]
    file = tmp_path / "rows.txt"
    file.write_text("\n".join(",".join(map(str, row)) for row in rows), encoding="utf-8")
    ended = runner.run("--bundle", onnx_gemma3, "--batch", file, "--max-new-tokens", 12)
    assert ended.code == 0, ended.err
    found = [line.split("] ")[1] for line in ended.out.strip().splitlines()]
    wanted = [
        row["tokens"]
        for start in (0, 4, 8)
        for row in python_answer(capsys, onnx_gemma3, rows[start : start + 4], "--max-new-tokens", 12)["generations"]
    ]
    assert found == [" ".join(map(str, tokens)) for tokens in wanted]


def test_the_trained_t5_reverses_strings_and_drafts_for_itself(
    onnx_t5: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model, tokenizer), texts = load(), strings(8, seed=21)
    rows = [tokenizer(text).input_ids for text in texts]
    eager = [model.generate(torch.tensor([row]), max_new_tokens=len(row) + 2, do_sample=False)[0, 1:] for row in rows]
    for mode in ((), ("--speculate", "prompt-lookup"), ("--speculate", "draft")):
        found = equal_python(capsys, onnx_t5, rows, *mode)
        assert [row["tokens"] for row in found["generations"]] == [row.tolist() for row in eager]
    assert found["stats"]["speculation"]["corrections"] == 0


def sound(path: Path, sample: Callable[[int], float], rate: int = 16_000) -> Path:
    """A WAV file of three quarters of a second."""
    values = [round(20_000 * sample(place)) for place in range(rate * 3 // 4)]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"".join(value.to_bytes(2, "little", signed=True) for value in values))
    return path


@pytest.mark.parametrize("options", [(), ("--speculate", "prompt-lookup"), (*SAMPLED, *PENALIZED)], ids=str)
def test_whisper_hears_what_python_hears(
    onnx_whisper: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple
) -> None:
    sounds = [
        sound(tmp_path / "rising.wav", lambda place: math.sin(place * place / 40_000)),
        sound(tmp_path / "clicks.wav", lambda place: 1.0 if place % 997 == 0 else 0.0),
        sound(tmp_path / "other_rate.wav", lambda place: math.sin(place / 5) * math.cos(place / 900), rate=22_050),
    ]
    files = [part for path in sounds for part in ("--audio", path)]
    together = equal_python(capsys, onnx_whisper, [], *files, "--max-new-tokens", 40, *options)["generations"]
    assert len({tuple(row["tokens"]) for row in together}) > 1
    if options == ():
        for path, row in zip(sounds, together, strict=True):
            alone = equal_python(capsys, onnx_whisper, [], "--audio", path, "--max-new-tokens", 40)["generations"]
            assert alone[0]["tokens"] == row["tokens"]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux lists them")
def test_a_target_and_its_draft_share_one_pool_of_threads(onnx_gemma3: Path, onnx_draft: Path, tmp_path: Path) -> None:
    """Whatever threads the runtime has beside the pool."""
    file = tmp_path / "rows"
    file.write_text("\n".join(["5,6,7"] * 4000), encoding="utf-8")
    command = [TOOL, "--bundle", onnx_gemma3, "--batch", file, "--stream", "--json"]
    drafting = ["--speculate", "draft", "--draft-bundle", onnx_draft, "--num-drafts", "2"]
    alone, of_three, of_both = (
        threads_of([*command, "--threads", *options]) for options in (["1"], ["3"], ["3", *drafting])
    )
    assert of_three == of_both == alone + 2


def threads_of(command: list[Any]) -> int:
    """Threads of a runner that is decoding."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        assert started.stdout is not None
        started.stdout.readline()
        found = len(list(Path(f"/proc/{started.pid}/task").iterdir()))
        started.kill()
    return found


PYTHON = [sys.executable, "-c", "from runtime_shims.start import run_model; run_model()", "generate"]


@pytest.mark.parametrize("command", [[TOOL, "--bundle"], PYTHON], ids=["C++", "Python"])
def test_nothing_is_left_in_the_users_home(onnx_gemma3: Path, tmp_path: Path, command: list[Any]) -> None:
    """Where the runtime keeps what it tells its maker. On CI it keeps nothing anyway, so this is not CI."""
    unset = ("CI", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in unset} | {"HOME": str(tmp_path)}
    subprocess.run([*command, onnx_gemma3, "--ids", "5"], env=environment, capture_output=True, check=True)
    assert [path.name for path in tmp_path.rglob("*") if "nnxruntime" in path.name] == []


def test_what_a_bundle_holds_is_shown(onnx_t5: Path) -> None:
    command = [TOOL.with_name("bundle-inspect"), onnx_t5]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert "program decode.onnx (onnx, attention portable)" in shown
    assert "draft: " in shown

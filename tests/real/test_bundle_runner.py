"""Real weights in C++: the runner's tokens are eager's, with and without speculation, in a batch, and from sound files.

`test_gemma3.py` holds the Python session's 1,600 tokens to eager; the C++ runner must give the same ones. The end of a
sequence is a token like any other here too: Gemma's bundles are copies whose manifest names none.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import soundfile
import soxr
import torch

from runtime_shims.native import operator_library_path
from runtime_shims.reference.generation import generate
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.text import load_text_codec
from tests.real.conftest import GgufModel
from tests.real.exports import Exports, script
from tests.real.oracle import JudgedOnce, first_difference
from tests.real.summary import Summary
from tests.real.test_smollm2 import QUESTIONS, chat
from tests.real.test_whisper import BECKETT, DICKENS, SECONDS
from tests.runner.conftest import endless
from tests.runner.runner import TOOL, Runner
from tests.support.real import real_weights
from tests.support.shared import THREADS

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(operator_library_path() is None, reason="the C++ operator library is not installed"),
]

PROMPT = "In the spring of 1847, the surveyor Thomas Aldridge left the harbour of Bristol with"
BEGINNINGS = (
    "def largest(numbers):",
    "The three most important things to know about volcanoes are",
    "Monday: rain. Tuesday: sun. Wednesday: rain. Thursday:",
)
NEW_TOKENS = 1600


@pytest.fixture(scope="module")
def runner() -> Runner:
    return Runner()


@pytest.fixture(scope="module", autouse=True)
def _all_are_made_side_by_side(exports: Exports) -> None:
    exports.start((name, "fused") for name in ("gemma3", "gemma3-8da4w", "smollm2", "smollm2-8da4w", "whisper"))


@pytest.fixture(scope="module")
def gemma(exports: Exports) -> tuple[Path, Path]:
    """The fp32 target and its 4-bit copy, both endless."""
    return tuple(endless(exports.bundle(name, "fused").root) for name in ("gemma3", "gemma3-8da4w"))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def rows(exports: Exports) -> list[list[int]]:
    codec = load_text_codec(exports.bundle("gemma3", "fused"))
    return [list(codec.encode(text)) for text in (PROMPT, *BEGINNINGS)]


@pytest.fixture(scope="module")
def prompt(rows: list[list[int]]) -> list[int]:
    return rows[0]


@pytest.fixture(scope="module")
def plain(runner: Runner, gemma: tuple[Path, Path], prompt: list[int]) -> list[int]:
    """What the runner decodes without drafts."""
    return runner.tokens(gemma[0], [prompt], "--max-new-tokens", NEW_TOKENS, "--no-verify")[0]


def test_1600_tokens_of_gemma_in_cpp_equal_eager_token_for_token(
    gemma3_judge: JudgedOnce, probe_P: torch.Tensor, prompt: list[int], plain: list[int]
) -> None:
    assert len(plain) == NEW_TOKENS
    judged = gemma3_judge(prompt + plain, len(prompt), probe_P)
    assert first_difference(judged.best.tolist(), plain) is None


def test_1600_tokens_stay_the_same_whatever_proposes(
    runner: Runner, gemma: tuple[Path, Path], prompt: list[int], plain: list[int], summary: Summary
) -> None:
    target, draft = gemma
    length = ("--max-new-tokens", NEW_TOKENS, "--no-verify")
    for mode in (("prompt-lookup",), ("draft", "--draft-bundle", draft, "--num-drafts", 4)):
        found = runner.answer(target, [prompt], *length, "--speculate", *mode)
        assert first_difference(plain, found["generations"][0]["tokens"]) is None, mode
        counts = found["stats"]["speculation"]
        summary.add(
            "gemma3", f"C++, {mode[0]}", f"{NEW_TOKENS} tokens equal in {counts['rounds']} steps, "
            f"{counts['accepted']} of {counts['evaluated']} drafts accepted",
        )  # fmt: skip
        assert counts["accepted"] > 100


@pytest.mark.parametrize("drafts", [1, 7])
def test_any_number_of_drafts_gives_the_same_tokens(
    runner: Runner, gemma: tuple[Path, Path], prompt: list[int], plain: list[int], drafts: int
) -> None:
    target, draft = gemma
    length = ("--max-new-tokens", 640, "--no-verify", "--num-drafts", drafts)
    for mode in (("prompt-lookup",), ("draft", "--draft-bundle", draft)):
        assert runner.tokens(target, [prompt], *length, "--speculate", *mode) == [plain[:640]]


def test_four_rows_of_gemma_with_ragged_acceptance_equal_four_single_runs(
    runner: Runner, gemma: tuple[Path, Path], rows: list[list[int]], summary: Summary
) -> None:
    target, draft = gemma
    mode = ("--max-new-tokens", 96, "--no-verify", "--speculate", "draft", "--draft-bundle", draft)
    together = runner.answer(target, rows, *mode)
    found = [row["tokens"] for row in together["generations"]]
    assert found == [runner.tokens(target, [row], *mode)[0] for row in rows]
    assert found == [runner.tokens(target, [row], *mode[:3])[0] for row in rows]
    lengths = together["stats"]["speculation"]["accepted_lengths"]
    assert len([count for count in lengths if count]) > 4
    summary.add("gemma3", "C++, draft", f"four rows in one batch equal four runs, accepted lengths {lengths}")


def test_four_chats_with_ragged_acceptance_equal_four_single_runs(
    runner: Runner, exports: Exports, smollm2: GgufModel, summary: Summary
) -> None:
    target, draft = (exports.bundle(name, "fused") for name in ("smollm2", "smollm2-8da4w"))
    rows = [chat(smollm2[1], question) for question in QUESTIONS]
    mode = ("--max-new-tokens", 48, "--no-verify", "--speculate", "draft", "--draft-bundle", draft.root)
    together = runner.answer(target.root, rows, *mode)
    found = [row["tokens"] for row in together["generations"]]
    assert found == [runner.tokens(target.root, [row], *mode)[0] for row in rows]
    session = open_session(target, threads=THREADS)
    assert found == [list(answer.tokens) for answer in generate(session, rows, max_new_tokens=48)]
    lengths = together["stats"]["speculation"]["accepted_lengths"]
    assert len([count for count in lengths if count]) > 2
    summary.add("smollm2", "C++, self", f"four chats in one batch equal four runs, accepted lengths {lengths}")


@pytest.mark.parametrize("mode", [(), ("--speculate", "prompt-lookup")], ids=["plain", "prompt-lookup"])
def test_whisper_hears_wav_files_without_python(
    runner: Runner, exports: Exports, mode: tuple[str, ...], summary: Summary
) -> None:
    bundle = exports.bundle("whisper", "fused")
    files = [argument for path in real_weights().speech_wavs() for argument in ("--audio", path)]
    ended = runner.answer(bundle.root, [], *files, "--audio-seconds", SECONDS, "--no-verify", *mode)
    texts = [row["text"] for row in ended["generations"]]
    assert texts[0] == BECKETT
    assert texts[1].startswith(DICKENS)
    python = [argument for path in real_weights().speech_wavs() for argument in ("--audio", str(path))]
    assert [row["tokens"] for row in ended["generations"]] == _python_tokens(bundle.root, python)
    name = "C++, prompt-lookup" if mode else "C++"
    summary.add("whisper", name, "two sound files in one batch, every token Python's")


@pytest.mark.parametrize("rate", [8000, 22050, 44100])
def test_recordings_of_other_rates_are_heard_as_in_python(
    runner: Runner, exports: Exports, tmp_path: Path, rate: int
) -> None:
    bundle = exports.bundle("whisper", "fused")
    files: list[object] = []
    for path in real_weights().speech_wavs():
        samples, found = soundfile.read(path, dtype="float32")
        soundfile.write(tmp_path / path.name, soxr.resample(samples[: int(SECONDS * found)], found, rate), rate)
        files += ["--audio", str(tmp_path / path.name)]
    ended = runner.answer(bundle.root, [], *files, "--audio-seconds", SECONDS, "--no-verify")
    assert [row["tokens"] for row in ended["generations"]] == _python_tokens(bundle.root, list(map(str, files)))


def _python_tokens(bundle: Path, files: list[str]) -> list[list[int]]:
    command = [script("run-model"), "generate", str(bundle), *files, "--audio-seconds", f"{SECONDS:g}", "--json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [row["tokens"] for row in json.loads(printed)["generations"]]


def test_a_runner_copied_elsewhere_needs_nothing_of_the_source_tree(
    runner: Runner, exports: Exports, tmp_path: Path
) -> None:
    copy = tmp_path / "bundle-runner"
    shutil.copy(TOOL, copy)
    bundle = exports.bundle("whisper", "fused")
    wav = real_weights().speech_wavs()[0]
    done = subprocess.run(
        [copy, "--bundle", bundle.root, "--audio", wav, "--no-verify"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env={"PATH": os.defpath},
    )  # fmt: skip
    assert done.stdout.strip() == BECKETT.strip()

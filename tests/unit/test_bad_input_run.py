"""Bad input to `run-model`: one line, the right exit code, nothing changed.

What is tested where is listed in `test_bad_input.py`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import EXPORT_MODEL, RUN_MODEL, listing, run
from runtime_doubles import BundleShape, write_bundle
from transformers import WhisperFeatureExtractor

from runtime_shims.cli import main

PROGRAM = "model.portable.pte"
CAPACITY = 96
COMMANDS = {
    "generate": ("generate", "--ids", "5,6"),
    "verify": ("verify",),
    "bench": ("bench", "--repeats", "1"),
    "inspect": ("inspect",),
}


@pytest.fixture
def bundle(llama_bundle: Path, tmp_path: Path) -> Path:
    """A copy of the real bundle that the test may damage."""
    return shutil.copytree(llama_bundle, tmp_path / "my.bundle")


def refused(directory: Path, capfd: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    """The one line of a command that fails with `code` and changes nothing in `directory`."""
    before = listing(directory)
    assert main([str(argument) for argument in arguments]) == code
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    line = printed.err.strip()
    assert line.startswith("run-model: ")
    assert listing(directory) == before
    return line


def edit_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Damage that changes the manifest as data."""

    def damage(bundle: Path) -> None:
        path = bundle / "manifest.json"
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return damage


def change_one_byte(bundle: Path) -> None:
    data = bytearray((bundle / PROGRAM).read_bytes())
    data[len(data) // 2] ^= 1
    (bundle / PROGRAM).write_bytes(data)


def remove_program(bundle: Path) -> None:
    (bundle / PROGRAM).unlink()


def remove_manifest(bundle: Path) -> None:
    (bundle / "manifest.json").unlink()


def point_outside(data: dict[str, Any]) -> None:
    data["files"][0]["path"] = "../golden.json"


def widen_the_step(data: dict[str, Any]) -> None:
    data["recipe"]["prefill_chunk"] = data["limits"]["max_step"] = 9


DAMAGE: dict[str, tuple[Callable[[Path], None], str, tuple[str, ...]]] = {
    "a changed byte": (change_one_byte, "has changed: its SHA-256 is", ("generate", "verify", "bench")),
    "a missing file": (remove_program, f"{PROGRAM} is missing", tuple(COMMANDS)),
    "no manifest": (remove_manifest, "there is no manifest.json in it", tuple(COMMANDS)),
    "a path outside": (edit_manifest(point_outside), "files[0].path", tuple(COMMANDS)),
    "an unknown key": (
        edit_manifest(lambda data: data["limits"].update(max_beams=4)),
        "limits.max_beams: ",
        tuple(COMMANDS),
    ),
    "a missing key": (edit_manifest(lambda data: data.pop("tokens")), "missing key", tuple(COMMANDS)),
    "a newer format": (
        edit_manifest(lambda data: data.update(format_version=2)),
        "format_version is 2, this version reads up to 1",
        tuple(COMMANDS),
    ),
}


@pytest.mark.parametrize(
    ("kind", "command"),
    [(kind, command) for kind, (_, _, commands) in DAMAGE.items() for command in commands],
)
def test_a_damaged_bundle_is_one_line_whatever_is_done_with_it(
    bundle: Path, capfd: pytest.CaptureFixture[str], kind: str, command: str
) -> None:
    damage, message, _ = DAMAGE[kind]
    damage(bundle)
    name, *options = COMMANDS[command]
    line = refused(bundle.parent, capfd, 1, name, bundle, *options)
    assert message in line
    assert "my.bundle" in line


def test_a_wider_step_than_the_rings_were_sized_for_is_refused(bundle: Path, capfd: pytest.CaptureFixture[str]) -> None:
    edit_manifest(widen_the_step)(bundle)
    assert main(["generate", str(bundle), "--ids", "5"]) == 1
    first, *faults = capfd.readouterr().err.splitlines()
    assert first.startswith("run-model: ")
    assert any("slots" in fault for fault in faults)


def test_the_bundle_runs_before_it_is_damaged(bundle: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The control of all refusals here, in a process of its own: no library adds a line."""
    done = run(*RUN_MODEL, "generate", bundle, "--ids", "5,6", "--max-new-tokens", "3")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()
    change_one_byte(bundle)
    done = run(*RUN_MODEL, "generate", bundle, "--ids", "5,6")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


@pytest.mark.parametrize("place", range(4, 8))
def test_a_program_without_its_identifier_is_one_line_and_no_crash(
    bundle: Path, capfd: pytest.CaptureFixture[str], place: int
) -> None:
    """The runtime's own message quotes these bytes, and would end the process where they are no UTF-8."""
    data = bytearray((bundle / PROGRAM).read_bytes())
    assert data[4:8] == b"ET12"
    data[place] ^= 0xFF
    (bundle / PROGRAM).write_bytes(data)
    line = refused(bundle.parent, capfd, 1, "generate", bundle, "--ids", "1", "--no-verify")
    assert f"{PROGRAM}: it is no ExecuTorch program: bytes 4 to 7 are b'" in line
    assert line.endswith("copy the bundle again or export the model again")


def test_bytes_that_are_not_utf_8_are_one_line_wherever_they_come_from(bundle: Path) -> None:
    """In a process of its own, as a shell gives them."""
    prompts = bundle.parent / "prompts.txt"
    prompts.write_bytes(b"good\ncaf\xc3\n")
    for given, message in (
        (("-p", "caf\udcc3"), "the prompt is not UTF-8 text (character 3)"),
        (("--prompts-file", prompts), f"{prompts} is not UTF-8 text (byte 8)"),
        (("--ids", "\udcff"), '--ids holds "\\udcff", which is no token id; give whole numbers'),
        (("--prompts-file", "no\udcffwhere"), "there is no prompts file no\\udcffwhere"),
    ):
        done = run(*RUN_MODEL, "generate", bundle, *given)
        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"run-model: {message}")


@pytest.mark.parametrize(("command", "name"), [(EXPORT_MODEL, "export-model"), (RUN_MODEL, "run-model")])
def test_a_closed_standard_output_is_one_line(command: tuple[str, ...], name: str) -> None:
    done = run("sh", "-c", 'exec "$@" >&-', "sh", *command, "nowhere", "--json")
    line = f"{name}: standard output is closed; leave it open, or send it to a file or to /dev/null\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def ids(count: int) -> str:
    return ",".join(["5"] * count)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--ids", ids(CAPACITY + 1)), 1, f"the decoder holds at most {CAPACITY} positions"),
        (("-p", "a" * (CAPACITY + 1)), 1, "export with a larger --max-dec"),
        (("--ids", ""), 2, "--ids holds no token id; give whole numbers separated by commas"),
        (("-p", ""), 2, "the prompt of row 0 is empty"),
        (("-p", "caf\udcc3"), 2, "the prompt is not UTF-8 text (character 3); give it as UTF-8"),
        (("--ids", "5,1.5"), 2, '--ids holds "1.5", which is no token id; give whole numbers separated by commas'),
        (("--ids", "1_0"), 2, '--ids holds "1_0", which is no token id'),
        (("--ids", "+5"), 2, '--ids holds "+5", which is no token id'),
        (("--ids", "٣"), 2, r'--ids holds "\u0663", which is no token id'),
        (("--ids", "9" * 5000), 2, '--ids holds "99999'),
        (("--ids", "9" * 18), 2, "the prompt of row 0 has token id 999999999999999999; ids are the integers 0..63"),
        (("--ids", "64"), 2, "ids are the integers 0..63"),
        (("--ids=-1",), 2, "ids are the integers 0..63"),
        (("--ids", "5", "--ids", "6"), 1, "the bundle runs at most 1 at once"),
        (("--ids", "5", "--backend", "xnnpack"), 2, "this bundle has no 'xnnpack' program, it has portable; give"),
        (("--audio", "a.wav"), 2, "not --audio"),
        (("--prompts-file", "nowhere.txt"), 2, "there is no prompts file nowhere.txt"),
        (("--prompts-file", "/dev/null"), 2, "/dev/null holds no prompt; write one per line"),
        (("--prompts-file", "/"), 2, "the prompts file / is a directory; give a text file"),
    ],
)
def test_a_request_that_does_not_fit_is_one_line(
    bundle: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    assert message in refused(bundle.parent, capfd, code, "generate", bundle, *arguments)


def test_a_prompt_that_fills_the_capacity_is_answered_with_one_token(
    bundle: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(bundle), "--ids", ids(CAPACITY), "--json"]) == 0
    (answer,) = json.loads(capfd.readouterr().out)["generations"]
    assert (len(answer["tokens"]), answer["stop_reason"]) == (1, "capacity")


@pytest.mark.parametrize(
    "error", [MemoryError("bad allocation"), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")]
)
def test_a_program_that_plans_more_memory_than_there_is_is_one_line(
    bundle: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from runtime_shims.reference.executorch_program import ExecutorchProgram

    def refuse(self: ExecutorchProgram) -> None:
        raise error

    monkeypatch.setattr(ExecutorchProgram, "_load", refuse)
    line = refused(bundle.parent, capfd, 1, "generate", bundle, "--ids", "5")
    assert re.search(r"model\.portable\.pte plans \S+ kB at run time", line)
    assert "more memory than this machine can give; export it with a smaller --max-batch or --max-dec" in line


def double(directory: Path, kind: str, files: dict[str, tuple[str, bytes]] | None = None) -> Path:
    """A bundle of `kind` whose program is never reached."""
    contents = {"model.xnnpack.pte": ("program", b"never loaded"), **(files or {})}
    return write_bundle(directory / f"{kind}.bundle", BundleShape(kind=kind, start=(0, 3)), contents)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("given", ["", "  ", ","])
def test_an_empty_encoder_input_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], given: str) -> None:
    line = refused(tmp_path, capfd, 2, "generate", double(tmp_path, "text_seq2seq"), "--ids", given)
    assert "--ids holds no token id; give whole numbers separated by commas" in line


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("notes.wav", b"these are notes", "cannot be read as sound; give a WAV, FLAC or OGG file"),
        ("empty.wav", b"", "cannot be read as sound"),
        ("cut.wav", b"RIFF\x24\x00\x00\x00WAVEfmt ", "cannot be read as sound"),
        ("nowhere.wav", None, "there is no audio file"),
    ],
)
def test_a_file_that_is_not_sound_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, contents: bytes | None, message: str
) -> None:
    WhisperFeatureExtractor(feature_size=4).save_pretrained(tmp_path / "extractor")
    config = (tmp_path / "extractor" / "preprocessor_config.json").read_bytes()
    files = {"tokenizer/preprocessor_config.json": ("preprocessor", config)}
    bundle = double(tmp_path, "speech_seq2seq", files)
    if contents is not None:
        (tmp_path / name).write_bytes(contents)
    assert message in refused(tmp_path, capfd, 2, "generate", bundle, "--audio", tmp_path / name)

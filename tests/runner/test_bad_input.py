"""What bundle-runner refuses: one line on standard error, the right exit code, nothing on standard output, no crash."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from runtime_shims.contract.manifest import FORMAT_VERSION
from runtime_shims.native import kernel_variant
from tests.runner.conftest import edit, endless
from tests.runner.runner import TOOL, Runner

USAGE, FAILED, INTERRUPTED = 2, 1, 130

OPTIONS: list[tuple[tuple[str, ...], str]] = [
    ((), "there is nothing to run; give one of --ids, --prompt, --audio or --batch"),
    (("--ids", "5", "--prompt", "x"), "several kinds of input exclude each other"),
    (("--ids", ""), "--ids holds no token id"),
    (("--ids", "5,x"), '--ids holds "x", which is no token id'),
    (("--ids", "5.0"), '--ids holds "5.0"'),
    (("--ids", "+5"), '--ids holds "+5", which is no token id; give whole numbers separated by commas'),
    (("--ids", "٣"), r'--ids holds "\u0663", which is no token id'),
    (("--ids", "99999999999999999999"), "which is no token id"),
    (("--ids", "5,64"), "token id 64; ids are the integers 0..63"),
    (("--ids", "-1"), "token id -1; ids are the integers"),
    (("--ids", "5", "--max-new-tokens", "0"), "--max-new-tokens must be a whole number in 1..922337"),
    (("--ids", "5", "--temperature", "hot"), "--temperature must be a number such as 0.7 or 1e-3, got 'hot'"),
    (("--ids", "5", "--temperature", "-1"), "--temperature must be a number, 0 (the best token) or more"),
    (("--ids", "5", "--top-k", "5"), "--top-k without --temperature changes nothing"),
    (("--ids", "5", "--seed", "-1"), "--seed must be a whole number in 0.."),
    (("--ids", "5", "--speculate", "magic"), "--speculate must be one of off, prompt-lookup, draft, self, mtp, auto"),
    (("--ids", "5", "--speculate", "draft"), "--speculate draft needs --draft-bundle, or a bundle exported"),
    (("--ids", "5", "--num-drafts", "2"), "--num-drafts is not used with --speculate off; give --speculate"),
    (("--ids", "5", "--speculate", "self"), "--speculate self needs a bundle exported with --draft self-int4"),
    (("--ids", "5", "--draft-bundle", "x"), "--draft-bundle is not used with --speculate off; give --speculate draft"),
    (("--ids", "5", "--threads", "0"), "--threads must be a whole number in 1..1024"),
    (("--ids", "5", "--backend", "cuda"), "this bundle has no 'cuda' program, it has xnnpack"),
    (("--ids", "5", "--nonsense"), "--nonsense is no option of bundle-runner"),
    (("--ids", "5", "extra"), "extra is no option; every input has one"),
    (("--ids",), "--ids needs a value"),
    (("--audio", "x.wav"), "the bundle is decoder_only and takes --ids, --prompt or --batch"),
    (("--ids", "5", "--ids", "6", "--stream"), "--stream prints one row, 2 were given"),
    (("--ids", "5", "--stop", ""), "--stop"),
    (("--ids", "5", "--temp", "1"), "--temp is no option of bundle-runner"),
    (("--ids", "5", "-xy"), "-x is no option of bundle-runner"),
    (("--ids", "5", "--stats=1"), "--stats=1 is no option of bundle-runner"),
    (("--ids", "5", "--speculate", "draft", "--num-drafts", "0"), "--num-drafts must be a whole number in 1.."),
    (
        ("--ids", "5", "--speculate", "prompt-lookup", "--num-drafts", "8"),
        "--num-drafts 8: the bundle verifies at most 7; export it with a larger --max-draft",
    ),
]
TOO_MUCH: list[tuple[tuple[str, ...], str]] = [
    (("--ids", ",".join(["5"] * 121)), "the prompt of row 0 has 121 tokens, the decoder holds at most 120 positions"),
    (tuple(x for _ in range(5) for x in ("--ids", "5")), "5 rows were given, the bundle runs at most 4 at once"),
]


def refused(ended: Any, code: int, part: str) -> None:
    assert ended.code == code, (ended.code, ended.err)
    assert part in ended.err
    assert ended.err.startswith("bundle-runner: ")
    assert ended.out == ""
    assert "Sanitizer" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "part"), OPTIONS, ids=[" ".join(given)[:40] or "nothing" for given, _ in OPTIONS]
)
def test_a_wrong_option_is_refused_in_one_line(
    runner: Runner, gemma3: Path, arguments: tuple[str, ...], part: str
) -> None:
    ended = runner.run("--bundle", gemma3, *arguments)
    refused(ended, USAGE, part)
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(("arguments", "part"), TOO_MUCH, ids=["prompt", "rows"])
def test_more_than_fits_is_refused_before_anything_runs(
    runner: Runner, gemma3: Path, arguments: tuple[str, ...], part: str
) -> None:
    refused(runner.run("--bundle", gemma3, *arguments), FAILED, part)


def test_a_bundle_must_be_given_and_be_one(runner: Runner, tmp_path: Path) -> None:
    refused(runner.run("--ids", "5"), USAGE, "no bundle was given")
    refused(runner.run("--bundle", tmp_path / "none", "--ids", "5"), FAILED, "there is no such directory")
    refused(runner.run("--bundle", tmp_path, "--ids", "5"), FAILED, "there is no manifest.json in it")


def test_ids_that_are_no_text_at_all_are_refused(runner: Runner, gemma3: Path) -> None:
    ended = runner.run("--bundle", gemma3, "--ids", os.fsdecode(b"5,\xff\xfe"))
    refused(ended, USAGE, r'--ids holds "\udcff\udcfe", which is no token id')


def test_a_batch_file_names_the_line_that_is_wrong(runner: Runner, gemma3: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_bytes(b"5 6\n7,\xff\n")
    refused(runner.run("--bundle", gemma3, "--batch", file), USAGE, "line 2 holds")
    file.write_bytes(b"\n\n")
    refused(runner.run("--bundle", gemma3, "--batch", file), USAGE, "holds no row of ids")
    refused(runner.run("--bundle", gemma3, "--batch", tmp_path / "none"), USAGE, "cannot be read")
    refused(runner.run("--bundle", gemma3, "--batch", tmp_path), USAGE, "cannot be read")
    refused(runner.run("--bundle", gemma3, "--batch", "/dev/zero"), USAGE, "line 1 is longer than 16777216 bytes")


@pytest.mark.parametrize(
    ("wrong", "code", "part"),
    [
        ("64", USAGE, "the prompt of {file}, line 12 has token id 64; ids are the integers 0..63"),
        (",".join(["5"] * 121), FAILED, "the prompt of {file}, line 12 has 121 tokens, the decoder holds at most 120"),
    ],
    ids=["id", "length"],
)
def test_a_wrong_line_of_a_late_batch_is_named_before_the_first_one_runs(
    runner: Runner, gemma3: Path, tmp_path: Path, wrong: str, code: int, part: str
) -> None:
    file = tmp_path / "rows"
    file.write_text("5 6\n\n" + "7\n" * 9 + wrong + "\n", encoding="utf-8")
    arguments = ("--batch", file, "--max-new-tokens", 2, "--stream", "--json")
    refused(runner.run("--bundle", gemma3, *arguments), code, part.format(file=file))


def test_a_wrong_source_is_named_by_its_row_in_the_whole_input(runner: Runner, small_t5: Path) -> None:
    rows = ("--ids", "5,1", "--ids", "6,1", "--ids", "5,9999")
    refused(runner.run("--bundle", small_t5, *rows), USAGE, "the encoder input of row 2 has token id 9999")


def test_a_batch_file_may_begin_with_a_byte_order_mark(runner: Runner, gemma3: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_bytes(b"\xef\xbb\xbf5 6\n7\n")
    ended = runner.run("--bundle", gemma3, "--batch", file, "--max-new-tokens", 2, "--json")
    assert ended.code == 0, ended.err
    assert [row["prompt_tokens"] for row in json.loads(ended.out)["generations"]] == [2, 1]


@pytest.mark.parametrize("tool", [TOOL, TOOL.with_name("bundle-inspect")], ids=lambda tool: tool.name)
def test_a_closed_standard_output_is_one_line(tool: Path) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", tool, "--help"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    advice = "leave it open, or send it to a file or to /dev/null"
    assert (done.returncode, done.stderr) == (FAILED, f"{tool.name}: standard output is closed; {advice}\n")


def test_a_prompt_that_makes_no_ids_is_one_line(runner: Runner, gemma3: Path, tmp_path: Path) -> None:
    helper = fake_helper(tmp_path, "echo")
    command = ("--bundle", gemma3, "--prompt")
    for text, part in (
        ("", "the prompt of row 0 is empty; give it at least one token"),
        (os.fsdecode(b"caf\xc3"), "the prompt is not UTF-8 text (byte 3); give it as UTF-8"),
    ):
        ended = runner.run(*command, text, env=helper)
        refused(ended, USAGE, part)
        assert ended.err.count("\n") == 1


def fake_helper(directory: Path, script: str) -> dict[str, str]:
    """The environment in which `run-model` is that shell script."""
    helper = directory / "run-model"
    helper.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    helper.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


def test_all_prompts_become_ids_in_one_process(runner: Runner, gemma3: Path, tmp_path: Path) -> None:
    helper = fake_helper(tmp_path, f'printf "%s\\n" "$@" >> {tmp_path}/given; echo 5,6; echo 7')
    command = ("--bundle", gemma3, "--prompt", "-a b", "--prompt", "ü", "--max-new-tokens", "2", "--json")
    ended = runner.run(*command, env=helper)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["generations"]
    assert [(row["input"], row["prompt_tokens"]) for row in found] == [("-a b", 2), ("ü", 1)]
    given = (tmp_path / "given").read_text("utf-8").splitlines()
    assert given == ["tokens", "--no-verify", "--prompt", "-a b", "--prompt", "ü", "--", str(gemma3)]


@pytest.mark.parametrize(
    ("script", "part"),
    [
        ("exit 2", "run-model tokens could not make ids of --prompt"),
        ("echo 5; echo 6", "run-model tokens printed 2 rows for 1 prompts"),
        ("echo hello", 'what run-model tokens printed holds "hello"'),
    ],
)
def test_a_helper_that_fails_is_told_apart(
    runner: Runner, gemma3: Path, tmp_path: Path, script: str, part: str
) -> None:
    helper = fake_helper(tmp_path, script)
    refused(runner.run("--bundle", gemma3, "--prompt", "x", env=helper), USAGE, part)


Change = Callable[[dict[str, Any]], None]
MANIFESTS: list[tuple[Change, str]] = [
    (lambda manifest: manifest.update(format_version=99), "upgrade fixed-capacity or export the model again"),
    (lambda manifest: manifest.update(extra=1), "extra: unknown key"),
    (lambda manifest: manifest.pop("tokens"), "tokens: missing key"),
    (lambda manifest: manifest["limits"].update(max_batch="4"), 'limits.max_batch: expected an integer >= 1, got "4"'),
    (lambda manifest: manifest["files"][0].update(path="../../etc/passwd"), "expected a relative path"),
]


def copied(bundle: Path, target: Path) -> Path:
    shutil.copytree(bundle, target)
    return target


@pytest.mark.parametrize(("change", "part"), MANIFESTS, ids=[part[:30] for _, part in MANIFESTS])
def test_a_manifest_that_was_edited_is_refused(
    runner: Runner, gemma3: Path, tmp_path: Path, change: Change, part: str
) -> None:
    bundle = copied(gemma3, tmp_path / "edited.bundle")
    edit(bundle, change)
    refused(runner.run("--bundle", bundle, "--ids", "5"), FAILED, part)


def test_limits_that_agree_with_each_other_and_not_with_the_program_are_refused(
    runner: Runner, gemma3: Path, tmp_path: Path
) -> None:
    bundle = copied(gemma3, tmp_path / "raised.bundle")

    def raise_max_dec(manifest: dict[str, Any]) -> None:
        """120 becomes 130 wherever it follows from --max-dec."""
        grown = 0
        for cache in manifest["caches"]:
            if cache["kind"] == "full":
                before = cache["size_bytes"]
                cache["size_bytes"] = before // cache["slots"] * (cache["slots"] + 10)
                cache["reach"], cache["slots"] = cache["reach"] + 10, cache["slots"] + 10
                grown += cache["size_bytes"] - before
        manifest["recipe"]["max_dec"] = manifest["limits"]["max_dec"] = 130
        manifest["memory"]["cache_bytes"] += grown
        manifest["memory"]["activation_bytes"] -= grown

    edit(bundle, raise_max_dec)
    refused(runner.run("--bundle", bundle, "--ids", "5"), FAILED, "the program holds")


@pytest.mark.parametrize("damage", ["flipped", "truncated", "emptied", "removed"])
def test_a_damaged_program_is_refused_with_hashes_and_without(
    runner: Runner, gemma3: Path, tmp_path: Path, damage: str
) -> None:
    bundle = copied(gemma3, tmp_path / "damaged.bundle")
    program = bundle / "model.xnnpack.pte"
    data = bytearray(program.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    kept = {"flipped": data, "truncated": data[: len(data) // 2], "emptied": b""}.get(damage)
    program.unlink()
    if kept is not None:
        program.write_bytes(kept)
    refused(runner.run("--bundle", bundle, "--ids", "5"), FAILED, "model.xnnpack.pte")
    if damage != "flipped":  # one bit of a weight is nothing that anybody could see without a hash
        refused(runner.run("--bundle", bundle, "--ids", "5", "--no-verify"), FAILED, "model.xnnpack.pte")


def test_a_program_whose_structure_is_damaged_is_refused_and_does_not_crash(
    runner: Runner, gemma3: Path, tmp_path: Path
) -> None:
    bundle = copied(gemma3, tmp_path / "torn.bundle")
    program = bundle / "model.xnnpack.pte"
    whole = program.read_bytes()
    damages = [(start, bytes(512)) for start in range(0, 4096, 512)]
    draws = Random(3)
    words = (bytes(4), b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x00\x00\x01\x00")
    damages += [(4 * draws.randrange(6000), draws.choice(words)) for _ in range(24)]
    for start, damage in damages:
        program.write_bytes(whole[:start] + damage + whole[start + len(damage) :])
        ended = runner.run("--bundle", bundle, "--ids", "5", "--max-new-tokens", "2", "--no-verify")
        assert ended.code in (0, FAILED), (start, damage, ended.err)
        assert "Sanitizer" not in ended.err
        assert ended.code == 0 or ended.err, (start, damage)


def test_a_draft_of_another_vocabulary_is_refused(runner: Runner, gemma3: Path, small_t5: Path, tmp_path: Path) -> None:
    ended = runner.run("--bundle", gemma3, "--ids", "5", "--speculate", "draft", "--draft-bundle", small_t5)
    refused(ended, USAGE, "cannot draft for")
    assert "kind text_seq2seq instead of decoder_only" in ended.err
    assert "vocabulary size" in ended.err


def test_a_bundle_that_verifies_no_drafts_says_so(runner: Runner, gemma3_draft: Path) -> None:
    ended = runner.run("--bundle", gemma3_draft, "--ids", "5", "--speculate", "prompt-lookup")
    refused(ended, USAGE, "the bundle verifies no drafts; export it with --max-draft")


def test_a_pool_of_threads_is_made_in_silence(runner: Runner, gemma3: Path) -> None:
    ended = runner.run("--bundle", gemma3, "--ids", "5", "--max-new-tokens", "2", "--threads", "3")
    assert (ended.code, ended.err) == (0, "")


def test_output_that_cannot_be_written_is_a_failure(gemma3: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("w") as nowhere:
        command = [TOOL, "--bundle", gemma3, "--ids", "5", "--max-new-tokens", "3"]
        done = subprocess.run(command, stdout=nowhere, stderr=subprocess.PIPE, check=False, text=True)
    assert done.returncode == FAILED
    assert "the output cannot be written" in done.stderr


def test_a_reader_that_has_gone_is_a_failure(gemma3: Path) -> None:
    command = [TOOL, "--bundle", gemma3, "--ids", "5", "--stream", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        errors = started.stderr.read()
    assert started.returncode == FAILED
    assert "the output cannot be written" in errors


def test_an_interrupt_before_the_first_token_ends_at_once(gemma3: Path, tmp_path: Path) -> None:
    """While `run-model tokens` is waited for, which here takes its time and says when it has begun."""
    helper = fake_helper(tmp_path, "touch begun; exec sleep 3 >/dev/null 2>&1")
    command = [TOOL, "--bundle", gemma3.resolve(), "--prompt", "x"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=helper, cwd=tmp_path, **pipes) as started:
        while not (tmp_path / "begun").exists():
            assert started.poll() is None
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=60)
    assert (started.returncode, out, err) == (INTERRUPTED, b"", b"bundle-runner: interrupted\n")


def test_an_interrupt_while_streaming_ends_the_run_with_what_there_is(gemma3: Path) -> None:
    command = [TOOL, "--bundle", gemma3, "--ids", "5", "--stream", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        first = started.stdout.readline()
        started.send_signal(signal.SIGINT)
        rest, errors = started.stdout.read(), started.stderr.read()  # `communicate` forgets what `readline` had read
    lines = (first + rest).strip().splitlines()
    ended = json.loads(lines[-1])
    if ended["stats"]["interrupted"]:  # the run may have been over already
        assert started.returncode == INTERRUPTED
        assert len(ended["generations"][0]["tokens"]) == len(lines) - 1
        assert errors == "bundle-runner: interrupted\n"
    assert "Sanitizer" not in errors


def test_an_interrupt_while_prompts_run_ends_the_run_with_the_rows_so_far(
    runner: Runner, gemma3: Path, tmp_path: Path
) -> None:
    """Of thousands of long prompts with one token each, of which nearly all time goes to prompts."""
    file = tmp_path / "rows"
    file.write_text("\n".join([",".join(["5", "6", "7"] * 39)] * 4000), encoding="utf-8")
    command = [TOOL, "--bundle", gemma3, "--batch", file, "--max-new-tokens", "1", "--stream", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        first = started.stdout.readline()
        started.send_signal(signal.SIGINT)
        rest, errors = started.stdout.read(), started.stderr.read()
    assert (started.returncode, errors) == (INTERRUPTED, "bundle-runner: interrupted\n")
    ended = json.loads((first + rest).strip().splitlines()[-1])
    assert ended["stats"]["interrupted"] is True
    assert 4 <= len(ended["generations"]) < 4000
    assert {len(row["tokens"]) for row in ended["generations"][:4]} == {1}


def test_help_names_every_option() -> None:
    shown = subprocess.run([TOOL, "--help"], capture_output=True, check=True, text=True).stdout
    for option in ("--bundle", "--ids", "--audio", "--batch", "--speculate", "--draft-bundle", "--stop", "--json"):
        assert option in shown


def test_the_version_names_the_format_and_the_kernels_of_python() -> None:
    ended = Runner().run("--version")
    assert ended.code == 0
    assert f", bundle format {FORMAT_VERSION}," in ended.out
    assert ended.out.strip().endswith(f", kernels {kernel_variant()}")


def test_endless_bundles_are_copies(gemma3: Path) -> None:
    """The fixture's own control: the bundle it was made from still ends."""
    original = gemma3.with_name(gemma3.name.removeprefix("endless-"))
    assert json.loads((original / "manifest.json").read_text("utf-8"))["tokens"]["eos"]
    assert endless(original) == gemma3

"""Sampling, stop strings and speculation as a user of `run-model generate` meets them, over programs in memory."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from string import ascii_letters
from typing import Any

import pytest
from runtime_doubles import VOCAB, BundleShape, expected_continuation, write_bundle

from runtime_shims.cli import main
from runtime_shims.contract.bundle_reader import sha256_of
from tests.support.letters import letter_tokenizer

pytestmark = pytest.mark.usefixtures("programs")

TOKENIZER = letter_tokenizer(VOCAB)


def write(root: Path, tokenizer: bool = True, **shape: Any) -> Path:
    contents = {"model.xnnpack.pte": ("program", b"pte")}
    if tokenizer:
        kept = root.with_suffix(".tokenizer")
        TOKENIZER.save_pretrained(kept)
        contents |= {f"tokenizer/{file.name}": ("tokenizer", file.read_bytes()) for file in sorted(kept.iterdir())}
    return write_bundle(root, BundleShape(**{"max_dec": 60, "max_draft": 4, **shape}), contents)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write(tmp_path / "bundle")


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return write(tmp_path / "draft", max_dec=40, max_draft=0, max_batch=2)


def run(*arguments: object) -> int:
    return main(["generate", *map(str, arguments)])


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """What `--json` prints."""
    assert run(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


def texts(printed: dict[str, Any]) -> list[str]:
    return [generation["text"] for generation in printed["generations"]]


def text_of(prompt: str, count: int) -> str:
    return TOKENIZER.decode(expected_continuation(TOKENIZER(prompt).input_ids, count))


def test_the_same_seed_gives_the_same_text_and_another_seed_another(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (bundle, "-p", "hello", "--max-new-tokens", 20, "--temperature", 2, "--top-k", 30)
    first, second, third = (answer(capsys, *given, "--seed", seed) for seed in (1, 1, 2))
    assert texts(first) == texts(second) != texts(third)
    assert texts(first) != [text_of("hello", 20)]


def test_without_a_temperature_the_text_is_the_greedy_one(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert texts(answer(capsys, bundle, "-p", "hello", "--max-new-tokens", 9, "--seed", 5)) == [text_of("hello", 9)]


def test_a_row_of_a_prompts_file_draws_the_same_in_any_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "prompts.txt"
    lines.write_text("\n".join("abcde"), encoding="utf-8")
    given = ("--prompts-file", lines, "--max-new-tokens", 12, "--temperature", 1.5)
    wide, narrow = write(tmp_path / "wide"), write(tmp_path / "narrow", max_batch=2)
    assert texts(answer(capsys, wide, *given)) == texts(answer(capsys, narrow, *given))


@pytest.mark.parametrize("options", [["--speculate", "prompt-lookup"], ["--speculate", "auto"], ["DRAFT", "draft"],
                                     ["DRAFT", "auto"], ["DRAFT", "draft", "--num-drafts", "2"]])  # fmt: skip
def test_speculation_changes_no_greedy_text_and_says_what_it_did(
    bundle: Path, draft: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    drafted = options[0] == "DRAFT"
    options = ["--draft-bundle", str(draft), "--speculate", *options[1:]] if drafted else options
    prompts = ("-p", "hello", "-p", "you", "-p", "a")
    printed = answer(capsys, bundle, *prompts, "--max-new-tokens", 30, *options)
    assert texts(printed) == [text_of(prompt, 30) for prompt in ("hello", "you", "a")]
    report = printed["stats"]["speculation"]
    assert report["mode"] == options[options.index("--speculate") + 1]
    assert report["emitted"] == 90
    assert (report["speed_model"] is not None) == (report["mode"] == "auto")
    if report["mode"] == "draft":
        assert report["accepted"] == report["proposed"] > 0
        assert report["num_drafts"] == (2 if "--num-drafts" in options else 4)


def test_a_plain_run_reports_no_drafts(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = answer(capsys, bundle, "-p", "hello", "--max-new-tokens", 5)["stats"]["speculation"]
    assert (report["mode"], report["proposed"], report["acceptance"]) == ("off", 0, None)
    assert (report["rounds"], report["plain_tokens"], report["emitted"]) == (4, 4, 5)


def test_statistics_for_people_have_a_histogram(bundle: Path, draft: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--speculate", "draft", "--draft-bundle", draft, "--max-new-tokens", 21, "--stats")
    assert run(bundle, "-p", "hello", *given) == 0
    printed = capsys.readouterr().err
    assert "Speculation: draft" in printed
    assert "acceptance" in printed
    assert "100%" in printed
    assert max(map(len, printed.splitlines())) < 80
    assert "accepted in a round" in printed
    assert "#" * 30 in printed


def test_a_stop_string_ends_the_row_and_is_no_part_of_the_text(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    greedy = text_of("hello", 20)
    stop = greedy[7:9]
    wanted = greedy[: greedy.index(stop)]
    printed = answer(capsys, bundle, "-p", "hello", "--max-new-tokens", 20, "--stop", stop, "--stop", "nowhere")
    (generation,) = printed["generations"]
    assert (generation["text"], generation["stop_reason"]) == (wanted, "stop_string")
    assert TOKENIZER.decode(generation["tokens"]) == wanted + stop
    assert run(bundle, "-p", "hello", "--max-new-tokens", 20, "--stop", stop, "--stream") == 0
    assert capsys.readouterr().out == wanted + "\n"


def test_help_explains_sampling_and_speculation(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert [name for name in ("--temperature", "--stop", "--speculate", "--draft-bundle") if name not in printed] == []
    assert "Where drafts come from: off; prompt-lookup (what followed" in printed


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--temperature", "-1"], "--temperature must be a number, 0 (the best token) or more, got -1.0"),
        (["--temperature", "1", "--top-p", "0", "--min-p", "2"], "--top-p must be"),
        (["--top-k", "3"], "--top-k without --temperature"),
        (["--seed", "-1"], "--seed must be a whole number in 0..18446744073709551615"),
        (["--max-new-tokens", "2", "--min-new-tokens", "3"], "--min-new-tokens 3 is more than"),
        (["--max-new-tokens", "5.0"], "--max-new-tokens must be a whole number in 1..9223372036854775807, got '5.0'"),
        (["--max-new-tokens", "1_0"], "--max-new-tokens must be a whole number in 1..9223372036854775807, got '1_0'"),
        (["--top-k", "9" * 5000], "--top-k must be a whole number in 0..9223372036854775807, got '999"),
        (["--temperature", "inf"], "--temperature must be a number such as 0.7 or 1e-3, got 'inf'"),
        (["--temperature", "1\n2"], "--temperature must be a number such as 0.7 or 1e-3, got '1\\n2'"),
        (["--stop", ""], "--stop must be a text of at least one character"),
        (["--speculate", "magic"], "must be one of off, prompt-lookup, draft, self, mtp, auto, got 'magic'"),
        (["--speculate", "draft"], "needs --draft-bundle, or a bundle exported with --draft"),
        (["--speculate", "self"], "--speculate self needs a bundle exported with --draft self-int4"),
        (["--draft-bundle", "x"], "--draft-bundle is not used with --speculate off"),
        (["--speculate", "prompt-lookup", "--draft-bundle", "x"], "not used with --speculate prompt-lookup"),
        (["--speculate", "auto", "--num-drafts", "2"], "--num-drafts is not used with --speculate auto"),
        (["--speculate", "prompt-lookup", "--num-drafts", "5"], "verifies at most 4; export it with a larger"),
        (["--speculate", "prompt-lookup", "--num-drafts", "0"], "--num-drafts"),
    ],
)
def test_a_wrong_call_is_one_line_that_names_the_option(
    bundle: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], part: str
) -> None:
    assert run(bundle, "-p", "a", *arguments) == 2
    printed = capsys.readouterr()
    assert part in printed.err
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1


def test_a_bundle_that_verifies_nothing_cannot_speculate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path / "none", max_draft=0), "-p", "a", "--speculate", "auto") == 2
    assert "the bundle verifies no drafts; export it with --max-draft" in capsys.readouterr().err


def test_a_draft_of_another_tokenizer_is_refused_by_its_digest(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "other", tokenizer=False, eos=(9,))
    assert run(bundle, "-p", "a", "--speculate", "draft", "--draft-bundle", other) == 2
    printed = capsys.readouterr().err
    assert "end-of-sequence tokens [9] instead of [1]" in printed
    assert "SHA-256 of tokenizer/tokenizer.json none (no tokenizer) instead of" in printed
    assert len(printed.splitlines()) == 1


def test_a_stop_string_needs_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write(tmp_path / "bare", tokenizer=False), "--ids", "5", "--stop", "x") == 2
    assert "carries no tokenizer" in capsys.readouterr().err


def with_own_draft(bundle: Path, draft: Path, name: str = "self-int4") -> Path:
    """A copy of `bundle` that holds `draft`, as `export-model --draft` writes it."""
    both = bundle.with_name("both")
    shutil.copytree(bundle, both)
    shutil.copytree(draft, both / "draft")
    data = json.loads((both / "manifest.json").read_text("utf-8"))
    manifest = both / "draft" / "manifest.json"
    size, digest = manifest.stat().st_size, sha256_of(manifest)
    data["files"].append({"path": "draft/manifest.json", "role": "draft", "sha256": digest, "size_bytes": size})
    data["recipe"]["draft"] = name
    (both / "manifest.json").write_text(json.dumps(data), encoding="utf-8")
    return both


@pytest.mark.parametrize(("name", "mode"), [("self-int4", "self"), ("self-int4", "draft"), ("small", "auto")])
def test_the_draft_inside_a_bundle_needs_no_option(
    bundle: Path, draft: Path, capsys: pytest.CaptureFixture[str], name: str, mode: str
) -> None:
    both = with_own_draft(bundle, draft, name)
    printed = answer(capsys, both, "-p", "hello", "--max-new-tokens", 30, "--speculate", mode)
    assert texts(printed) == [text_of("hello", 30)]
    assert mode == "auto" or printed["stats"]["speculation"]["accepted"] > 0  # what auto does is a matter of speed


def test_a_draft_that_is_another_model_is_no_copy(
    bundle: Path, draft: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(with_own_draft(bundle, draft, "small"), "-p", "a", "--speculate", "self") == 2
    assert "--speculate self needs a bundle exported with --draft self-int4" in capsys.readouterr().err


def test_a_damaged_draft_inside_a_bundle_is_refused_when_it_is_needed(
    bundle: Path, draft: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = with_own_draft(bundle, draft)
    program = next((both / "draft").glob("*.pte"))
    program.write_bytes(program.read_bytes() + b"\0")
    assert run(both, "-p", "a", "--max-new-tokens", 3) == 0
    capsys.readouterr()
    assert run(both, "-p", "a", "--speculate", "self") == 1
    assert f"{program.name} has" in capsys.readouterr().err


def test_inspect_shows_the_draft_inside_a_bundle(
    bundle: Path, draft: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = with_own_draft(bundle, draft)
    assert main(["inspect", str(both)]) == 0
    assert "--speculate self or auto" in capsys.readouterr().out
    assert main(["inspect", str(both), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["draft"]["kind"] == "decoder_only"


def test_an_empty_text_is_told_with_what_may_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompt = next(text for text in map("".join, product(ascii_letters, repeat=2)) if not text_of(text, 1).strip())
    ids = TOKENIZER(prompt).input_ids
    bundle = write(tmp_path / "bundle", eos=tuple(expected_continuation(ids, 1)))
    assert run(bundle, "--prompt", prompt) == 0
    assert "row 0: the model ended at once, with an empty text; models that were taught" in capsys.readouterr().err
    assert run(bundle, "--ids", ",".join(map(str, ids))) == 0
    assert capsys.readouterr().err == ""

"""What both runtimes read and refuse alike: the same exit code and the same line for the same options."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.runner.runner import Runner, python_answer, run_both

INTEGERS = ["0x10", "1_0", "5.0", " 5", "5 ", "+5", "1e1", "", "\uff15", "9223372036854775808", "9" * 99, "5\n6"]
NUMBERS = [
    "0x1p3", "1_0", "1 ", "+1", "inf", "nan", "infinity", "1e400", "1e", ".", "", "1,5", "\uff11", "true", "hot\ncold",
    "-1e-9", "-1", "1e-400\x7f", "\u00e9\u2028",
]  # fmt: skip
REFUSED: list[tuple[str, ...]] = [
    *(("--max-new-tokens", value) for value in INTEGERS),
    *(("--temperature", value) for value in NUMBERS),
    *((option, "-1") for option in ("--top-k", "--no-repeat-ngram", "--min-new-tokens", "--seed", "--num-drafts")),
    *((option, "0") for option in ("--max-new-tokens", "--threads", "--num-drafts")),
    ("--seed", "18446744073709551616"),
    ("--threads", "1025"),
    ("--top-p", "0"),
    ("--temperature", "1", "--top-p", "1.5", "--min-p", "-1e-300"),
    ("--repetition-penalty", "0"),
    ("--top-k", "5"),
    ("--min-new-tokens", "3", "--max-new-tokens", "2"),
    ("--speculate", "ma\ngic"),
    ("--num-drafts", "2"),
    ("--speculate", "mtp"),
    ("--speculate", "mtp", "--draft-bundle", "other.bundle", "--num-drafts", "99"),
    ("--speculate", "auto", "--num-drafts", "2"),
    ("--backend", "cu\nda"),
    ("--audio-start", "1"),
    ("--audio-seconds", "1"),
    ("--audio-start", "0x1"),
    ("--stop", ""),
    ("--stop", os.fsdecode(b"caf\xc3")),
    ("--stop", "a\ufffd"),
]
TAKEN: list[tuple[str, ...]] = [
    ("--max-new-tokens", "05", "--seed", "-0", "--top-k", "-0"),
    ("--temperature", ".5", "--top-p", "1.", "--min-p", "1e-3", "--top-k", "9223372036854775807"),
    ("--temperature", "1E0", "--seed", "18446744073709551615", "--no-repeat-ngram", "9223372036854775807"),
    ("--temperature", "1e-400"),
    ("--repetition-penalty", "1.3", "--audio-start", "0"),
]


@pytest.mark.parametrize("options", REFUSED, ids=ascii)
def test_both_refuse_the_same_option_in_the_same_line(
    small_t5: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    found, wanted = run_both(capsys, small_t5, "--ids", "5,1", *options)
    assert found == wanted
    assert (found.code, found.out, len(found.err.splitlines())) == (2, "", 1)


@pytest.mark.parametrize("options", TAKEN, ids=ascii)
def test_both_read_the_same_numbers(
    small_t5: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    limit = () if "--max-new-tokens" in options else ("--max-new-tokens", "4")
    found, wanted = run_both(capsys, small_t5, "--ids", "5,1", *options, *limit)
    assert found == wanted
    assert found.code == 0


def test_both_refuse_the_same_rows_in_the_same_line(small_t5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [text for _ in range(9) for text in ("--ids", "5,1")]
    for rows in (["--ids", "5,9999"], ["--ids", "5", "--ids", "5,-1"], ["--ids", ",".join(["5"] * 99)]):
        found, wanted = run_both(capsys, small_t5, *rows)
        assert found == wanted
    found, wanted = run_both(capsys, small_t5, *many)
    assert found.err.replace("--batch", "--prompts-file") == wanted.err
    assert found.code == wanted.code == 1


def test_a_bundle_whose_name_is_two_lines_is_missed_in_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found, wanted = run_both(capsys, tmp_path / "no\nsuch\tbundle", "--ids", "5")
    assert found == wanted
    assert "no\\nsuch\\tbundle: there is no such directory" in found.err
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize("mode", ["off", "prompt-lookup", "auto"])
def test_both_report_the_same_keys_in_the_same_order(
    runner: Runner, gemma3: Path, capsys: pytest.CaptureFixture[str], mode: str
) -> None:
    options = ("--max-new-tokens", "9", "--speculate", mode)
    found = runner.answer(gemma3, [[5, 6, 5, 6]], *options)
    wanted = python_answer(capsys, gemma3, [[5, 6, 5, 6]], *options)
    assert _keys(found) == _keys(wanted)
    for stats in (found["stats"], wanted["stats"]):
        assert (stats["new_tokens"], stats["decode_tokens"], stats["interrupted"]) == (9, 8, False)
        assert (stats["speculation"]["running_acceptance"] is None) == (mode != "auto")


def _keys(value: Any) -> Any:
    """A JSON value's shape: keys in their order."""
    if isinstance(value, dict):
        return [(key, _keys(inner)) for key, inner in value.items()]
    return [_keys(inner) for inner in value if isinstance(inner, dict)] if isinstance(value, list) else None


def test_both_say_for_people_what_drafts_cost_and_became(gemma3: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--ids", "5,6,5,6", "--max-new-tokens", "9", "--speculate", "auto", "--stats")
    parts = ("8 tokens", "corrections", "bonuses", "propose", "verify", " ms", "a step of 1, 2, ... tokens costs")
    for ended in run_both(capsys, gemma3, *options):
        assert ended.code == 0
        for part in parts:
            assert part in ended.err, part

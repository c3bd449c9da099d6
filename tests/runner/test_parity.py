"""bundle-runner over program files: Python's tokens, whatever proposes drafts, alone and in a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.native import operator_library_path
from tests.runner.runner import Runner, python_answer
from tests.support.small_t5 import load, strings

ROWS = [[5, 9, 12, 7, 30, 5, 9], [11], [3, 40, 41, 42, 3, 40, 41, 42, 17], [8, 8, 8]]
SAMPLED = ("--temperature", "0.9", "--top-k", "20", "--top-p", "0.95", "--seed", "12")
PENALIZED = ("--repetition-penalty", "1.3", "--no-repeat-ngram", "3", "--min-new-tokens", "9")
LENGTH = ("--max-new-tokens", "80")


@pytest.mark.parametrize("settings", [(), SAMPLED, PENALIZED, (*SAMPLED, *PENALIZED)], ids=str)
@pytest.mark.parametrize("speculate", [(), ("--speculate", "prompt-lookup")], ids=str)
def test_ragged_rows_through_wrapping_windows_equal_python(
    runner: Runner, gemma3: Path, capsys: pytest.CaptureFixture[str], settings: tuple, speculate: tuple
) -> None:
    options = (*LENGTH, *settings, *speculate)
    found, wanted = runner.answer(gemma3, ROWS, *options), python_answer(capsys, gemma3, ROWS, *options)
    assert found["generations"] == wanted["generations"]
    for count in ("rounds", "proposed", "accepted", "accepted_lengths", "corrections", "bonuses", "emitted"):
        assert found["stats"]["speculation"][count] == wanted["stats"]["speculation"][count], count


@pytest.mark.parametrize("settings", [(), SAMPLED], ids=str)
@pytest.mark.parametrize("drafts", [1, 2, 4, 7])
def test_a_draft_model_draws_and_is_judged_as_in_python(
    runner: Runner, gemma3: Path, gemma3_draft: Path, capsys: pytest.CaptureFixture[str], settings: tuple, drafts: int
) -> None:
    options = (*LENGTH, *settings, "--speculate", "draft", "--draft-bundle", gemma3_draft, "--num-drafts", drafts)
    found, wanted = runner.answer(gemma3, ROWS, *options), python_answer(capsys, gemma3, ROWS, *options)
    assert found["generations"] == wanted["generations"]
    assert found["stats"]["speculation"]["accepted_lengths"] == wanted["stats"]["speculation"]["accepted_lengths"]
    assert found["stats"]["speculation"]["accepted"] > 0


@pytest.mark.parametrize("settings", [(), SAMPLED, PENALIZED], ids=str)
def test_a_draft_of_fewer_rows_positions_and_other_rules_drafts_as_in_python(
    runner: Runner, gemma3: Path, narrow_draft: Path, capsys: pytest.CaptureFixture[str], settings: tuple
) -> None:
    options = (*LENGTH, *settings, "--speculate", "draft", "--draft-bundle", narrow_draft)
    found, wanted = runner.answer(gemma3, ROWS[:3], *options), python_answer(capsys, gemma3, ROWS[:3], *options)
    assert found["generations"] == wanted["generations"]
    ours, theirs = found["stats"], wanted["stats"]
    assert ours["requests"] == theirs["requests"] == 2  # batches of as many rows as the draft takes
    for key in ("mode", "num_drafts", "speed_model", "proposed", "acceptance", "accepted_lengths", "plain_tokens"):
        assert ours["speculation"][key] == theirs["speculation"][key], key
    assert ours["speculation"]["plain_tokens"] > 0  # behind the draft's last position


@pytest.mark.parametrize("settings", [(), SAMPLED], ids=str)
@pytest.mark.parametrize("drafts", range(1, 8))
def test_a_model_that_drafts_for_itself_is_never_refused(
    runner: Runner, gemma3: Path, drafts: int, settings: tuple
) -> None:
    options = (*LENGTH, *settings, "--speculate", "draft", "--draft-bundle", gemma3, "--num-drafts", drafts)
    counts = runner.answer(gemma3, ROWS, *options)["stats"]["speculation"]
    assert counts["evaluated"] == counts["accepted"] > 100


def test_prompts_around_the_window_and_a_step_continue_as_in_python(
    runner: Runner, gemma3: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The window is 8, a step of the prompt takes 5."""
    for lengths in ((4, 5, 6, 7), (8, 9, 10, 11), (15, 16, 17, 40)):
        rows = [[(7 * place + length) % 60 + 2 for place in range(length)] for length in lengths]
        for speculate in ((), ("--speculate", "prompt-lookup")):
            options = ("--max-new-tokens", "30", *speculate)
            found, wanted = runner.answer(gemma3, rows, *options), python_answer(capsys, gemma3, rows, *options)
            assert found["generations"] == wanted["generations"], (lengths, speculate)


@pytest.mark.parametrize("length", [118, 119, 120])
def test_a_prompt_that_fills_the_capacity_gives_the_tokens_that_fit(
    runner: Runner, gemma3: Path, capsys: pytest.CaptureFixture[str], length: int
) -> None:
    rows = [[(5 * place) % 60 + 2 for place in range(length)]]
    for speculate in ((), ("--speculate", "prompt-lookup")):
        found = runner.answer(gemma3, rows, *speculate)["generations"]
        assert found == python_answer(capsys, gemma3, rows, *speculate)["generations"]
        assert len(found[0]["tokens"]) == 120 - length + 1


def test_speeds_are_measured_with_a_draft_of_fewer_rows(runner: Runner, gemma3: Path, narrow_draft: Path) -> None:
    options = (*LENGTH, "--speculate", "auto", "--draft-bundle", narrow_draft)
    found = runner.answer(gemma3, ROWS, *options)
    assert len(found["stats"]["speculation"]["speed_model"]["verify"]) == 8
    assert [row["tokens"] for row in found["generations"]] == runner.tokens(gemma3, ROWS, *LENGTH)


@pytest.mark.parametrize("mode", ["prompt-lookup", "draft", "auto"])
def test_greedy_speculation_gives_the_tokens_of_plain_decoding(
    runner: Runner, gemma3: Path, gemma3_draft: Path, mode: str
) -> None:
    draft = () if mode == "prompt-lookup" else ("--draft-bundle", gemma3_draft)
    found = runner.tokens(gemma3, ROWS, *LENGTH, "--speculate", mode, *draft)
    assert found == runner.tokens(gemma3, ROWS, *LENGTH)


def test_a_batch_equals_its_rows_alone(runner: Runner, gemma3: Path, gemma3_draft: Path) -> None:
    options = (*LENGTH, "--speculate", "draft", "--draft-bundle", gemma3_draft)
    together = runner.answer(gemma3, ROWS, *options)
    alone = [runner.tokens(gemma3, [row], *options)[0] for row in ROWS]
    assert [row["tokens"] for row in together["generations"]] == alone
    assert len([count for count in together["stats"]["speculation"]["accepted_lengths"] if count]) > 2


def test_the_trained_t5_reverses_eight_strings_of_mixed_lengths_in_one_batch(
    runner: Runner, small_t5: Path, small_t5_draft: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model, tokenizer), texts = load(), strings(8, seed=21)
    rows = [tokenizer(text).input_ids for text in texts]
    assert len({len(row) for row in rows}) > 3
    wanted = python_answer(capsys, small_t5, rows)
    eager = [model.generate(torch.tensor([row]), max_new_tokens=len(row) + 2, do_sample=False)[0, 1:] for row in rows]
    assert [row["tokens"] for row in wanted["generations"]] == [row.tolist() for row in eager]
    right = [tokenizer(text[::-1]).input_ids for text in texts]
    modes: list[tuple[Any, ...]] = [
        (),
        ("--speculate", "prompt-lookup"),
        ("--speculate", "self" if operator_library_path() else "draft"),
        ("--speculate", "auto", "--draft-bundle", small_t5_draft),
    ]
    for mode in modes:
        found = runner.answer(small_t5, rows, *mode)
        assert found["generations"] == wanted["generations"], mode
        assert sum(row["tokens"] == want for row, want in zip(found["generations"], right, strict=True)) >= 7


def test_many_rows_of_a_file_run_in_batches_with_random_streams_of_their_own(
    runner: Runner, gemma3: Path, tmp_path: Path
) -> None:
    rows = [[number % 60 + 2, 7, 5] for number in range(11)]
    file = tmp_path / "rows.txt"
    file.write_text("\n".join(" ".join(map(str, row)) for row in rows) + "\n", encoding="utf-8")
    ended = runner.run("--bundle", gemma3, "--batch", file, "--max-new-tokens", "12", *SAMPLED)
    assert ended.code == 0, ended.err
    lines = ended.out.strip().splitlines()
    assert len(lines) == 11
    assert len({line.split("] ")[1] for line in lines}) > 1


def test_streamed_text_is_the_text(runner: Runner, small_t5: Path) -> None:
    tokenizer = load()[1]
    row = [tokenizer(strings(1, seed=3)[0]).input_ids]
    whole = runner.answer(small_t5, row)["generations"][0]
    streamed = runner.run("--bundle", small_t5, "--ids", ",".join(map(str, row[0])), "--stream")
    assert streamed.code == 0
    assert streamed.out == whole["text"] + "\n"
    assert whole["text"] == tokenizer.decode(whole["tokens"], skip_special_tokens=True)


def test_a_stop_string_ends_a_row_and_is_left_out(
    runner: Runner, small_t5: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = load()[1]
    row = [tokenizer(strings(1, seed=3)[0]).input_ids]
    text = runner.answer(small_t5, row)["generations"][0]["text"]
    stop = text[2:4]
    found = runner.answer(small_t5, row, "--stop", stop, "--speculate", "prompt-lookup")["generations"][0]
    assert (found["stop_reason"], found["text"]) == ("stop_string", text[: text.index(stop)])
    assert found == python_answer(capsys, small_t5, row, "--stop", stop)["generations"][0]


@pytest.mark.parametrize("stop", [(), (2, 4)], ids=["to the end", "stopped"])
def test_what_is_streamed_adds_up_to_the_answer(
    runner: Runner, small_t5: Path, capsys: pytest.CaptureFixture[str], stop: tuple
) -> None:
    tokenizer = load()[1]
    row = [tokenizer(strings(1, seed=3)[0]).input_ids]
    text = runner.answer(small_t5, row)["generations"][0]["text"]
    options = ("--stop", text[slice(*stop)]) if stop else ()
    streamed = runner.run("--bundle", small_t5, "--ids", ",".join(map(str, row[0])), "--stream", "--json", *options)
    *events, last = map(json.loads, streamed.out.splitlines())
    answer = last["generations"][0]
    assert answer == python_answer(capsys, small_t5, row, *options)["generations"][0]
    assert "".join(event["text"] for event in events) == answer["text"]
    assert [event["token"] for event in events if event["token"] is not None] == answer["tokens"]


def test_the_manifest_of_a_bundle_is_shown_without_python(small_t5: Path, runner: Runner) -> None:
    from subprocess import run

    from tests.runner.runner import TOOL

    shown = run([TOOL.with_name("bundle-inspect"), small_t5], capture_output=True, check=True, text=True).stdout
    manifest = read_bundle(small_t5).manifest
    assert f"planned {manifest.memory.planned_bytes / 1e6:.1f} MB" in shown
    assert f"{manifest.source.parameter_count / 1e6:.1f} M parameters" in shown
    for program in manifest.programs:
        assert program.file in shown

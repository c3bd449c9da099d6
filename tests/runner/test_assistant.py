"""bundle-runner with an assistant in the program: Python's tokens and Python's drafts, round by round."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.runner.runner import TOOL, Runner, python_answer, run_both
from tests.runner.test_parity import LENGTH, PENALIZED, ROWS, SAMPLED

MTP = ("--speculate", "mtp")
COUNTS = ("mode", "num_drafts", "rounds", "proposed", "accepted", "accepted_lengths", "corrections", "bonuses")


@pytest.mark.parametrize("settings", [(), SAMPLED, (*SAMPLED, *PENALIZED)], ids=["greedy", "drawn", "penalized"])
def test_an_assistant_drafts_and_is_judged_as_in_python(
    runner: Runner, assisted: Path, capsys: pytest.CaptureFixture[str], settings: tuple
) -> None:
    """Ragged rows past many windows, in a batch."""
    options = (*LENGTH, *settings, *MTP)
    found, wanted = runner.answer(assisted, ROWS, *options), python_answer(capsys, assisted, ROWS, *options)
    assert found["generations"] == wanted["generations"]
    for count in COUNTS:
        assert found["stats"]["speculation"][count] == wanted["stats"]["speculation"][count], count
    assert found["stats"]["speculation"]["accepted"] > 0


def test_rows_alone_give_the_batchs_tokens_and_pythons_rounds(
    runner: Runner, assisted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    together = runner.tokens(assisted, ROWS, *LENGTH, *MTP)
    for row, tokens in zip(ROWS, together, strict=True):
        found = runner.answer(assisted, [row], *LENGTH, *MTP)
        wanted = python_answer(capsys, assisted, [row], *LENGTH, *MTP)
        assert found["generations"][0]["tokens"] == tokens
        lengths = found["stats"]["speculation"]["accepted_lengths"]
        assert lengths == wanted["stats"]["speculation"]["accepted_lengths"]


@pytest.mark.parametrize("options", [MTP, (*MTP, "--num-drafts", "1"), ("--speculate", "auto")], ids=str)
def test_greedy_text_is_that_of_plain_decoding(runner: Runner, assisted: Path, options: tuple) -> None:
    assert runner.tokens(assisted, ROWS, *LENGTH, *options) == runner.tokens(assisted, ROWS, *LENGTH)


def test_auto_drafts_with_the_assistant_and_measures_what_it_costs(runner: Runner, assisted: Path) -> None:
    model = runner.answer(assisted, ROWS, *LENGTH, "--speculate", "auto")["stats"]["speculation"]["speed_model"]
    assert model["draft"] > 0
    assert len(model["verify"]) == 4


@pytest.mark.parametrize(
    "options",
    [
        ("--speculate", "draft"),
        ("--speculate", "self"),
        (*MTP, "--num-drafts", "4"),
        (*MTP, "--draft-bundle", "other.bundle"),
    ],
    ids=ascii,
)
def test_both_refuse_what_an_assistant_rules_out_in_the_same_line(
    assisted: Path, capsys: pytest.CaptureFixture[str], options: tuple
) -> None:
    found, wanted = run_both(capsys, assisted, "--ids", "5,6", *options)
    assert found == wanted
    assert (found.code, len(found.err.splitlines())) == (2, 1)


def test_an_assistant_is_shown(assisted: Path) -> None:
    command = [TOOL.with_name("bundle-inspect"), assisted]
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert "draft: an assistant in the program; run it with --speculate mtp or auto" in shown

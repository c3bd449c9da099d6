"""An interrupt while prompts run or tokens come ends the run with what there is, and with the exit code 130."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runtime_doubles import BundleShape, HistoryProgram, expected_continuation, history_session, write_bundle

from runtime_shims.cli import main
from runtime_shims.reference.adaptive import FixedDrafts
from runtime_shims.reference.generation import GenerationInterrupted, generate
from runtime_shims.reference.proposers import DraftModel
from runtime_shims.reference.speculative import Decoding
from runtime_shims.reference.stats import RunStats

SHAPE = BundleShape(max_dec=40, max_batch=2, prefill_chunk=2)
PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [12]]
CHUNKS = 4


def interrupt_at(monkeypatch: pytest.MonkeyPatch, call: int) -> list[int]:
    """Every program's call number `call`, counted from 0 over all of them, is interrupted; the list counts them."""
    decode, calls = HistoryProgram.decode, [0]

    def counted(self: HistoryProgram, inputs: Any) -> Any:
        if calls[0] == call:
            raise KeyboardInterrupt
        calls[0] += 1
        return decode(self, inputs)

    monkeypatch.setattr(HistoryProgram, "decode", counted)
    return calls


@pytest.mark.parametrize("call", range(9))
def test_rows_stand_as_far_as_they_had_come(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    interrupt_at(monkeypatch, call)
    stats = RunStats()
    with pytest.raises(GenerationInterrupted) as interrupt:
        generate(history_session(SHAPE)[0], PROMPTS, max_new_tokens=20, stats=stats)
    emitted = max(call - CHUNKS + 1, 0)
    for prompt, found in zip(PROMPTS, interrupt.value.generations, strict=True):
        assert list(found.tokens) == expected_continuation(prompt, emitted)
        assert (found.stop_reason, found.prompt_tokens) == ("none", len(prompt))
    assert (stats.requests, stats.new_tokens) == (1, 2 * emitted)
    assert stats.prefill_tokens == (8 if call >= CHUNKS else 0)


def test_the_prompts_of_a_draft_model_are_interrupted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 2)
    how = Decoding(proposer=DraftModel(history_session(SHAPE)[0]), drafts=FixedDrafts(3))
    session, program = history_session(SHAPE)
    with pytest.raises(GenerationInterrupted) as interrupt:
        generate(session, PROMPTS, how=how)
    assert [found.tokens for found in interrupt.value.generations] == [(), ()]
    assert program.steps == []


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "bundle", SHAPE, {"model.xnnpack.pte": ("program", b"pte")})


@pytest.mark.usefixtures("programs")
def test_the_command_prints_what_there_is_and_ends_as_interrupted(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, 6)
    given = ["--ids", "5,6,7,8,9,10,11", "--ids", "12", "--max-new-tokens", "20"]
    assert main(["generate", str(bundle), *given, "--json"]) == 130
    out, err = capsys.readouterr()
    printed = json.loads(out)
    assert [row["tokens"] for row in printed["generations"]] == [expected_continuation(row, 3) for row in PROMPTS]
    assert [row["stop_reason"] for row in printed["generations"]] == ["none", "none"]
    assert printed["stats"]["interrupted"] is True
    assert err == "run-model: interrupted\n"


@pytest.mark.usefixtures("programs")
def test_a_run_that_ends_says_that_it_was_not_interrupted(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(bundle), "--ids", "5", "--max-new-tokens", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stats"]["interrupted"] is False


@pytest.mark.usefixtures("programs")
def test_streamed_tokens_end_with_their_line_when_interrupted(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, 2)
    assert main(["generate", str(bundle), "--ids", "12", "--stream"]) == 130
    out, err = capsys.readouterr()
    assert out.split() == [str(token) for token in expected_continuation([12], 2)]
    assert (out[-1], err) == ("\n", "run-model: interrupted\n")

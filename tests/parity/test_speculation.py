"""Speculation over program files: the tokens of plain decoding, through windows that wrap, whatever proposes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch import Tensor

from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.reference.adaptive import AdaptiveDrafts, DraftLength, FixedDrafts, measure
from runtime_shims.reference.generation import Generation, generate
from runtime_shims.reference.loading import load_program
from runtime_shims.reference.program import Program, StepInputs
from runtime_shims.reference.proposers import DraftModel, PromptLookup, Proposer
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.session import Session
from runtime_shims.reference.speculative import Decoding
from runtime_shims.reference.stats import RunStats
from tests.parity.programs import GEMMA, GEMMA_ONNX, GEMMA_PORTABLE, T5, T5_ONNX, Lowered, ProgramStore, on

NEW_TOKENS = 70
SAMPLED = SamplingSettings(temperature=0.8, top_k=20, seed=4)


class Disturbed:
    """A program that is wrong at every third position: a draft that is right often and not always."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.encode, self.reset = program.encode, program.reset

    def decode(self, inputs: StepInputs) -> Tensor:
        logits_BRV = self._program.decode(inputs).clone()
        for row, position in enumerate(inputs.positions.tolist()):
            for column, offset in enumerate(inputs.logit_rows[row].tolist()):
                if (position + offset) % 3 == 0:
                    logits_BRV[row, column] = logits_BRV[row, column].roll(1)
        return logits_BRV


def endless(bundle: Bundle) -> Bundle:
    """The bundle without an end-of-sequence token, so that every row wraps its windows."""
    manifest = bundle.manifest
    return replace(bundle, manifest=replace(manifest, tokens=replace(manifest.tokens, eos=())))


def proposer_of(name: str, lowered: Lowered) -> Proposer:
    """A proposer; draft models run in a program of their own."""
    if name == "prompt lookup":
        return PromptLookup()
    program: Program = load_program(lowered.bundle, lowered.bundle.program())
    return DraftModel(Session(endless(lowered.bundle), program if name == "itself" else Disturbed(program)))


def run(lowered: Lowered, settings: SamplingSettings, proposer: Proposer | None, drafts: DraftLength) -> tuple[
    list[Generation], RunStats
]:  # fmt: skip
    """Three ragged rows of text, and what they cost."""
    request = lowered.request([5, 1, 9], [6, 3, 11])
    session, stats = Session(endless(lowered.bundle), lowered.program), RunStats()
    how = Decoding(settings, proposer, drafts)
    answers = generate(session, request.texts, request.session_source, NEW_TOKENS, stats=stats, how=how)
    return answers, stats


@on(T5, GEMMA, T5_ONNX, GEMMA_ONNX)
@pytest.mark.parametrize("name", ["prompt lookup", "itself", "a disturbed self"])
def test_greedy_speculation_gives_the_tokens_of_plain_decoding(lowered: Lowered, name: str) -> None:
    greedy = SamplingSettings()
    plain, _ = run(lowered, greedy, None, FixedDrafts())
    found, stats = run(lowered, greedy, proposer_of(name, lowered), FixedDrafts(3))
    assert found == plain
    assert [len(answer.tokens) for answer in found] == [NEW_TOKENS] * 3
    assert stats.proposed > 0
    if name == "itself":
        assert stats.accepted == stats.evaluated
    else:
        assert 0 < stats.accepted < stats.evaluated


@on(GEMMA)
def test_a_bundle_of_core_operators_drafts_for_the_fused_one(lowered: Lowered, programs: ProgramStore) -> None:
    draft = programs.lowered(GEMMA_PORTABLE)
    proposer = DraftModel(Session(endless(draft.bundle), draft.program))
    plain, _ = run(lowered, SamplingSettings(), None, FixedDrafts())
    found, stats = run(lowered, SamplingSettings(), proposer, FixedDrafts(3))
    assert found == plain
    assert stats.accepted > 0.98 * stats.evaluated > 100


@on(GEMMA)
def test_a_sampled_draft_that_is_the_target_is_accepted(lowered: Lowered) -> None:
    _, stats = run(lowered, SAMPLED, proposer_of("itself", lowered), FixedDrafts(3))
    assert stats.accepted > 0.98 * stats.evaluated > 100


@on(T5, GEMMA, T5_ONNX, GEMMA_ONNX)
def test_adaptive_speculation_gives_the_tokens_of_plain_decoding(lowered: Lowered) -> None:
    session = Session(endless(lowered.bundle), lowered.program)
    model = measure(session, 3)
    assert len(model.verify) == 4
    plain, _ = run(lowered, SamplingSettings(), None, FixedDrafts())
    found, stats = run(lowered, SamplingSettings(), PromptLookup(), AdaptiveDrafts(model, 3))
    assert found == plain
    assert stats.new_tokens == 3 + stats.accepted + stats.corrections + stats.bonuses + stats.plain_tokens

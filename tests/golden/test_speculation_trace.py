"""Replays speculation_trace.json with the Python runtime. A C++ runtime replays it too."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from make_speculation_trace import TRACE_PATH, trace_text
from plain_speculation import toy_logits

from runtime_shims.contract.manifest import ForcedToken
from runtime_shims.reference.adaptive import AdaptiveDrafts, FixedDrafts, SpeedModel
from runtime_shims.reference.exponential import exponential
from runtime_shims.reference.generation import generate
from runtime_shims.reference.proposers import DraftModel, PromptLookup, Proposer
from runtime_shims.reference.random_stream import uniform
from runtime_shims.reference.sampling import filtered_distribution
from runtime_shims.reference.sampling_settings import SamplingSettings
from runtime_shims.reference.session import Session
from runtime_shims.reference.speculative import Decoding
from runtime_shims.reference.stats import RowRound
from runtime_shims.reference.stop_strings import StopStrings
from tests.unit.runtime_doubles import BundleShape, HistoryProgram, make_bundle

TRACE = json.loads(TRACE_PATH.read_text(encoding="utf-8"))
CASES = TRACE["cases"]
TEXTS = TRACE["toy"]["texts"]


class ToyProgram(HistoryProgram):
    """The toy model of the trace: what it answers follows from every token that its caches hold."""

    def __init__(self, *args: Any, draft: bool) -> None:
        super().__init__(*args)
        self.draft = draft
        self.sources: list[list[int]] = [[] for _ in self.held]

    def encode(self, source: torch.Tensor, enc_lengths: torch.Tensor) -> None:
        self.sources = [source[row, :length].tolist() for row, length in enumerate(enc_lengths.tolist())]

    def _logits(self, row: int, position: int) -> torch.Tensor:
        held = [self.held[row][p] for p in range(position + 1)]
        return torch.tensor(toy_logits(self.sources[row], held, self.draft))


class ToyText:
    """Every token of the toy model has a text of its own."""

    def push(self, token: int) -> str:
        return TEXTS[token]


def session_of(case: dict[str, Any], limits: dict[str, int], draft: bool) -> Session:
    rules = case["rules"]
    shape = BundleShape(
        kind=case["kind"],
        eos=tuple(case["eos"]),
        vocab=len(TEXTS),
        forced=tuple(ForcedToken(int(position), token) for position, token in rules["forced"].items()),
        suppress=tuple(rules["suppress"]),
        begin_suppress=tuple(rules["begin_suppress"]),
        **limits,
    )
    bundle = make_bundle(shape)
    return Session(bundle, ToyProgram(bundle.manifest.limits, shape.vocab, draft=draft))


def proposer_of(case: dict[str, Any]) -> Proposer | None:
    if case["proposer"] == "draft":
        return DraftModel(session_of(case, case["draft_limits"], draft=True))
    return PromptLookup() if case["proposer"] == "prompt-lookup" else None


class Recorder:
    """Writes rounds as the trace has them, and keeps the random streams to ask how far they were read."""

    def __init__(self, session: Session, proposer: Proposer | None) -> None:
        self.session, self.proposer = session, proposer
        self.rounds: list[list[dict[str, Any]]] = []

    def __call__(self, outcomes: list[RowRound]) -> None:
        self.rounds.append([self.row(row, outcome) for row, outcome in enumerate(outcomes)])

    def row(self, row: int, outcome: RowRound) -> dict[str, Any]:
        record = {"proposed": list(outcome.proposed), "accepted": outcome.accepted, "emitted": outcome.emitted}
        record |= {"length": self.session.length(row), "high_water": self.session.high_water(row)}
        if isinstance(self.proposer, DraftModel):
            draft = self.proposer.session
            record |= {"draft_length": draft.length(row), "draft_high_water": draft.high_water(row)}
        return record


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_runtime_replays_the_golden_trace(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from runtime_shims.reference import generation

    streams: dict[str, list[Any]] = {"target_stream": [], "draft_stream": []}
    for name, made in streams.items():
        make = getattr(generation, name)
        monkeypatch.setattr(generation, name, lambda *args, make=make, made=made: made.append(make(*args)) or made[-1])
    session, proposer = session_of(case, case["limits"], draft=False), proposer_of(case)
    recorder, model = Recorder(session, proposer), case["speed_model"]
    how = Decoding(
        settings=SamplingSettings(**case["settings"]),
        proposer=proposer,
        drafts=FixedDrafts(case["num_drafts"])
        if model is None
        else AdaptiveDrafts(SpeedModel(tuple(model["verify"]), model["draft"]), case["limits"]["max_draft"]),
        stops=StopStrings(case["stops"], ToyText) if case["stops"] else None,
        first_row=case["first_row"],
        on_round=recorder,
    )
    answers = generate(session, case["prompts"], case["sources"], case["budgets"], how=how)
    draft_draws = [stream.drawn for stream in streams["draft_stream"]] or [0] * len(answers)
    assert [list(answer.tokens) for answer in answers] == [row["tokens"] for row in case["rows"]]
    assert [answer.stop_reason for answer in answers] == [row["stop_reason"] for row in case["rows"]]
    assert recorder.rounds == case["rounds"]
    assert [stream.drawn for stream in streams["target_stream"]] == [row["target_draws"] for row in case["rows"]]
    assert draft_draws == [row["draft_draws"] for row in case["rows"]]


def test_the_random_draws_are_those_of_the_trace() -> None:
    for seed, stream, index, bits in TRACE["uniforms"]:
        assert uniform(seed, stream, index) == bits / 2**53


def test_exponentials_and_distributions_are_those_of_the_trace_bit_by_bit() -> None:
    for x, y in TRACE["exponentials"]:
        assert float(exponential(np.array([float.fromhex(x)]))[0]).hex() == y
    for entry in TRACE["distributions"]:
        found = filtered_distribution(np.array(entry["logits"], np.float32), SamplingSettings(**entry["settings"]))
        assert found.ids.tolist() == entry["ids"]
        assert [mass.hex() for mass in found.masses.tolist()] == entry["masses"]


def test_the_trace_is_what_its_script_writes() -> None:
    assert TRACE_PATH.read_text(encoding="utf-8") == trace_text()


def test_speculation_gives_the_tokens_of_plain_decoding_where_drafts_are_certain() -> None:
    """Greedy, and prompt lookup at any temperature."""
    compared = 0
    for case in CASES:
        certain = case["settings"]["temperature"] == 0 or case["proposer"] == "prompt-lookup"
        plain = case["name"].replace("prompt-lookup", "off").replace("draft", "off")
        twins = [other for other in CASES if other["name"] == plain and other["name"] != case["name"]]
        if certain and twins:
            assert [row["tokens"] for row in twins[0]["rows"]] == [row["tokens"] for row in case["rows"]]
            compared += 1
    assert compared >= 15


def test_the_trace_covers_every_stop_reason_and_every_number_of_accepted_drafts() -> None:
    outcomes = [outcome for case in CASES for round_ in case["rounds"] for outcome in round_ if outcome["proposed"]]
    assert {row["stop_reason"] for case in CASES for row in case["rows"]} == {
        "eos", "stop_string", "max_new_tokens", "capacity",
    }  # fmt: skip
    assert {outcome["accepted"] for outcome in outcomes if len(outcome["proposed"]) == 4} == {0, 1, 2, 3, 4}
    assert any(len(outcome["proposed"]) == 8 for outcome in outcomes)


def test_the_trace_has_rows_that_end_inside_a_block_for_every_reason_that_can() -> None:
    inside = {
        case["rows"][index]["stop_reason"]
        for case in CASES
        for round_ in case["rounds"]
        for index, outcome in enumerate(round_)
        if 0 < outcome["emitted"] == outcome["accepted"]
    }
    assert inside >= {"eos", "stop_string"}


def test_the_trace_has_rollbacks_past_the_wrap_and_drafts_that_catch_up_two_tokens() -> None:
    for case in CASES:
        window = case["limits"]["window"]
        if case["proposer"] == "draft" and case["speed_model"] is None and "capacity" not in case["name"]:
            last = case["rounds"][-1]
            assert any(outcome["high_water"] > window + 5 for outcome in last)
    behind = [
        outcome["length"] - outcome["draft_length"]
        for case in CASES
        if case["proposer"] == "draft" and case["speed_model"] is None
        for round_ in case["rounds"]
        for outcome in round_
    ]
    assert {0, 1} <= set(behind)

"""Gemma 3 270M past its window of 512, in every form, against stock eager transformers.

1,600 tokens turn each sliding ring almost three times. The oracle runs eager once over the finished sequence
instead of generating it again; `oracle.py` says why that is the same. End-of-sequence is a token like any
other on both sides: a cache does not care what a token means, and so any prompt reaches 1,600 tokens.

A long greedy continuation tends to repeat itself, and a cache that is slightly wrong could still pick the
same words. So the logits of a thousand vocabulary entries are compared at every position too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
import torch

from exporter.bundle.tolerances import TOLERANCES
from runtime_shims.contract.bundle_reader import Bundle
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.session import Session
from tests.real.conftest import GgufModel
from tests.real.exports import FORMS, Exports, backend_of
from tests.real.greedy_driver import GreedyRun, RollbackDriver, RollbackPlan, greedy_run
from tests.real.oracle import JudgedOnce, Judgement, first_difference
from tests.real.summary import Summary
from tests.support.shared import THREADS

pytestmark = pytest.mark.real

PROMPT = "In the spring of 1847, the surveyor Thomas Aldridge left the harbour of Bristol with"
NEW_TOKENS = 1600
WINDOW, MAX_STEP, MAX_DEC = 512, 64, 2048
ROLLBACKS = {
    "fused": RollbackPlan(seed=1847, max_draft=7, deep_every=40, tokens=1100),
    "portable": RollbackPlan(seed=1847, max_draft=3, deep_every=80, tokens=1100),  # its steps are slow
    "onnx": RollbackPlan(seed=1847, max_draft=7, deep_every=40, tokens=1100),
}
"""Past two windows each; what comes behind is what came before."""


@dataclass(frozen=True)
class Finished:
    """A bundle's session after its plain greedy run of `NEW_TOKENS` tokens."""

    form: str
    bundle: Bundle
    session: Session
    prompt: list[int]
    run: GreedyRun


@pytest.fixture(scope="module", params=FORMS)
def finished(request: pytest.FixtureRequest, exports: Exports, gemma3: GgufModel, probe_P: torch.Tensor) -> Finished:
    bundle = exports.bundle("gemma3", request.param)
    session = open_session(bundle, threads=THREADS)
    prompt = gemma3[1](PROMPT).input_ids
    return Finished(request.param, bundle, session, prompt, greedy_run(session, prompt, NEW_TOKENS, probe_P))


@pytest.fixture(scope="module")
def judgement(finished: Finished, gemma3_judge: JudgedOnce, probe_P: torch.Tensor) -> Judgement:
    return gemma3_judge(finished.prompt + finished.run.tokens, len(finished.prompt), probe_P)


def test_1600_greedy_tokens_equal_eager_token_for_token(
    finished: Finished, judgement: Judgement, summary: Summary
) -> None:
    assert len(finished.run.tokens) == NEW_TOKENS
    assert first_difference(judgement.best.tolist(), finished.run.tokens) is None
    at = int(judgement.margin.argmin())
    summary.add(
        "gemma3",
        finished.form,
        f"{NEW_TOKENS} tokens equal, smallest margin {float(judgement.margin[at]):.2g} at token {at}",
    )


def test_logits_stay_within_tolerance_at_every_position(
    finished: Finished, judgement: Judgement, summary: Summary
) -> None:
    difference = float((finished.run.probes - judgement.probes).abs().max())
    allowed = TOLERANCES["float32", backend_of(finished.form)].absolute(judgement.largest)
    summary.add("gemma3", finished.form, f"logits within {difference:.2g} (allowed {allowed:.2g})")
    assert difference <= allowed


def test_wrong_tokens_rolled_back_on_the_way_change_nothing(finished: Finished, summary: Summary) -> None:
    plan = ROLLBACKS[finished.form]
    run = RollbackDriver(finished.session, finished.prompt, finished.run.tokens[: plan.tokens], plan).run()
    assert first_difference(finished.run.tokens[: plan.tokens], run.tokens) is None
    assert run.chained > 50
    assert MAX_STEP - plan.max_draft <= min(run.deep[-3:]) <= MAX_STEP
    summary.add(
        "gemma3",
        finished.form,
        f"the same in {run.steps} steps with {run.rolled_back} tokens rolled back, {run.chained} chained",
    )


def test_a_wrong_token_that_is_not_rolled_back_is_noticed(finished: Finished, probe_P: torch.Tensor) -> None:
    session, tokens = finished.session, finished.run.tokens
    session.begin([finished.prompt])
    session.prefill()
    right_P = session.step([[tokens[0]]])[0, 0, probe_P].clone()
    session.rollback(0, 1)
    session.step([[tokens[1]]])
    wrong_P = session.step([[tokens[0]]])[0, 0, probe_P]
    allowed = TOLERANCES["float32", backend_of(finished.form)].absolute(float(right_P.abs().max()))
    assert float((right_P - wrong_P).abs().max()) > allowed


def test_sliding_layers_hold_exactly_the_window_and_one_step_less_one(finished: Finished) -> None:
    manifest = finished.bundle.manifest
    slots = Counter((cache.kind, cache.slots) for cache in manifest.caches)
    assert manifest.limits.max_step == MAX_STEP
    assert slots == {("sliding", WINDOW + MAX_STEP - 1): 15, ("full", MAX_DEC + MAX_STEP - 1): 3}

"""The parity ladder: eager -> cached -> traced -> bundle, all answering the golden requests.

The bundle is replayed first: when it repeats the eager answers there is nothing to explain. When it does
not, the rungs below are climbed to name the first one that differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from exporter.bundle.tolerances import features_tolerance, tolerance
from exporter.spec.faults import ExportFailed
from exporter.trace.functional import runnable
from exporter.trace.trace import ExportedProgram
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.reference.golden import Golden, read_golden
from runtime_shims.reference.golden_drafts import DraftsResult, replay_drafts
from runtime_shims.reference.golden_features import FeaturesResult, GoldenFeatures, replay_features
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.program import DraftInputs, StepInputs
from runtime_shims.reference.replay import ReplayResult, replay
from runtime_shims.reference.session import Session


class ParityError(ExportFailed):
    """A bundle that does not repeat eager PyTorch; names the first rung that differs, with the numbers."""


@dataclass(frozen=True)
class Stages:
    """What the rungs run: the method modules, and their traced programs."""

    modules: dict[str, nn.Module]
    traced: dict[str, ExportedProgram]


class ModuleProgram:
    """Methods as Python callables behind the runtime's program interface, with caches of their own."""

    def __init__(self, methods: dict[str, nn.Module]) -> None:
        self.methods = methods
        self._states: list[Tensor] = []

    def features(self, waveform: Tensor) -> Tensor:
        with torch.no_grad():
            return self.methods["features"](waveform)

    def encode(self, source: Tensor, lengths: Tensor) -> None:
        with torch.no_grad():
            self.methods["encode"](source, lengths)

    def decode(self, step: StepInputs) -> Tensor:
        inputs = [step.tokens, step.positions, step.step_lengths, step.logit_rows]
        if step.enc_lengths is not None:
            inputs.append(step.enc_lengths)
        with torch.no_grad():
            result = self.methods["decode"](*inputs)
        logits, *self._states = (result,) if isinstance(result, Tensor) else result
        return logits

    def hidden(self) -> Tensor:
        return self._states[0]

    def draft(self, inputs: DraftInputs) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            logits, states = self.methods["draft"](*inputs.as_tuple())
        return logits, states

    def reset(self) -> None:
        """Nothing to do: what a request did not write is not visible to it."""


def verify_bundle(directory: Path, make_stages: Callable[[str], Stages]) -> list[ReplayResult]:
    """Replay the golden requests on every program of a finished bundle directory.

    `make_stages` is called with its backend only when a program differs, to find out where.

    Raises:
        ParityError: the first rung that differs from eager, by how much, and where tokens part.
    """
    bundle = read_bundle(directory)
    golden = read_golden(bundle)
    results = []
    for entry in bundle.manifest.programs:
        allowed = tolerance(bundle.manifest.recipe, entry.backend)
        with_tolerance = replace(golden, logits_tolerance=allowed.absolute(largest_logit(golden)))
        session = open_session(bundle, entry.backend)
        result = replay(session, with_tolerance)
        if not (result.logits_passed and result.tokens_passed):
            stages = make_stages(entry.backend)
            raise ParityError("parity", [first_difference(bundle, golden, stages, entry.backend, result)])
        if golden.features is not None:
            found = replay_features(session, within(golden.features, entry.backend))
            if not found.passed:
                stages = make_stages(entry.backend)
                at = first_features_difference(bundle, golden.features, stages, entry.backend, found)
                raise ParityError("parity", [at])
        if golden.drafts is not None:
            drafted = replay_drafts(session, golden.requests[0].prompts, golden.drafts)
            if not drafted.passed:
                stages = make_stages(entry.backend)
                raise ParityError("parity", [first_drafts_difference(bundle, golden, stages, entry.backend, drafted)])
        results.append(result)
    return results


def first_difference(
    bundle: Bundle, golden: Golden, stages: Stages, backend: str, found: ReplayResult
) -> str:
    """Climb the rungs below the bundle and describe the first one that differs."""
    allowed = tolerance(bundle.manifest.recipe, "eager").absolute(largest_logit(golden))
    eager_golden = replace(golden, logits_tolerance=allowed)
    for rung, methods in rungs_of(stages):
        result = replay(Session(bundle, ModuleProgram(methods)), eager_golden)
        if not (result.logits_passed and result.tokens_passed):
            return f"the {rung} rung differs from eager: {described(result)}"
    return f"the {backend} program differs from eager (cached and traced agree with it): {described(found)}"


def first_features_difference(
    bundle: Bundle, golden: GoldenFeatures, stages: Stages, backend: str, found: FeaturesResult
) -> str:
    """The same for the speech front end, which the extractor judges."""
    for rung, methods in rungs_of(stages):
        result = replay_features(Session(bundle, ModuleProgram(methods)), within(golden, "eager"))
        if not result.passed:
            return f"the features of the {rung} rung differ from the extractor's: {described_features(result)}"
    return f"the features of the {backend} program differ from the extractor's: {described_features(found)}"


def first_drafts_difference(
    bundle: Bundle, golden: Golden, stages: Stages, backend: str, found: DraftsResult
) -> str:
    """The same for the assistant's drafts."""
    assert golden.drafts is not None
    for rung, methods in rungs_of(stages):
        result = replay_drafts(Session(bundle, ModuleProgram(methods)), golden.requests[0].prompts, golden.drafts)
        if not result.passed:
            return f"the drafts of the {rung} rung differ from the assistant's: {described_drafts(result)}"
    return f"the drafts of the {backend} program differ from the assistant's: {described_drafts(found)}"


def rungs_of(stages: Stages) -> list[tuple[str, dict[str, nn.Module]]]:
    """The rungs below a program, lowest first: the method modules, and their traces as modules."""
    traced = {name: runnable(name, program, stages.modules.get(name)) for name, program in stages.traced.items()}
    return [("cached", stages.modules), ("traced", traced)]


def within(golden: GoldenFeatures, backend: str) -> GoldenFeatures:
    """The golden features with the tolerance of one backend."""
    largest = max((abs(value) for row in golden.rows for _, _, value in row), default=1.0)
    return replace(golden, tolerance=features_tolerance(backend).absolute(largest))


def described_features(result: FeaturesResult) -> str:
    return f"by {result.difference:.3g} (allowed {result.tolerance:.3g})"


def described_drafts(result: DraftsResult) -> str:
    return f"logits by {result.difference:.3g} (allowed {result.tolerance:.3g})"


def described(result: ReplayResult) -> str:
    """Numbers of a replay in one phrase."""
    text = f"logits by {result.logits_difference:.3g} (allowed {result.logits_tolerance:.3g}), "
    text += f"{result.tokens_equal} of {result.tokens} tokens equal"
    at = result.first_difference
    return (
        text
        if at is None
        else f"{text}, first at row {at.row} token {at.position}: {at.expected} became {at.got}"
    )


def largest_logit(golden: Golden) -> float:
    """Magnitude of the recorded logits, the scale of every tolerance."""
    values = [
        abs(logit) for request in golden.requests for row in request.first_logits_top for _, logit in row
    ]
    return max(values, default=1.0)

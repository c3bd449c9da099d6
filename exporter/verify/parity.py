"""The parity ladder: eager -> cached -> traced -> bundle, all answering the golden requests.

The bundle is replayed first: when it repeats the eager answers there is nothing to explain. When it does
not, the rungs below are climbed to name the first one that differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from exporter.bundle.tolerances import tolerance
from exporter.spec.faults import ExportFailed
from exporter.trace.trace import ExportedProgram
from runtime_shims.contract.bundle_reader import Bundle, read_bundle
from runtime_shims.reference.golden import Golden, read_golden
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.program import StepInputs
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

    def encode(self, source: Tensor, enc_lengths: Tensor) -> None:
        with torch.no_grad():
            self.methods["encode"](source, enc_lengths)

    def decode(self, step: StepInputs) -> Tensor:
        inputs = [step.tokens, step.positions, step.step_lengths, step.logit_rows]
        if step.enc_lengths is not None:
            inputs.append(step.enc_lengths)
        with torch.no_grad():
            return self.methods["decode"](*inputs)

    def reset(self) -> None:
        """Nothing to do: what a request did not write is not visible to it."""


def verify_bundle(directory: Path, make_stages: Callable[[], Stages]) -> list[ReplayResult]:
    """Replay the golden requests on every program of a finished bundle directory.

    `make_stages` is called only when a program differs, to find out where.

    Raises:
        ParityError: the first rung that differs from eager, by how much, and where tokens part.
    """
    bundle = read_bundle(directory)
    golden = read_golden(bundle)
    results = []
    for entry in bundle.manifest.programs:
        allowed = tolerance(bundle.manifest.recipe, entry.backend)
        with_tolerance = Golden(golden.requests, allowed.absolute(largest_logit(golden)))
        result = replay(open_session(bundle, entry.backend), with_tolerance)
        if not (result.logits_passed and result.tokens_passed):
            raise ParityError("parity", [first_difference(bundle, golden, make_stages(), entry.backend, result)])
        results.append(result)
    return results


def first_difference(
    bundle: Bundle, golden: Golden, stages: Stages, backend: str, found: ReplayResult
) -> str:
    """Climb the rungs below the bundle and describe the first one that differs."""
    allowed = tolerance(bundle.manifest.recipe, "eager").absolute(largest_logit(golden))
    eager_golden = Golden(golden.requests, allowed)
    traced = {name: program.module() for name, program in stages.traced.items()}
    for rung, methods in (("cached", stages.modules), ("traced", traced)):
        result = replay(Session(bundle, ModuleProgram(methods)), eager_golden)
        if not (result.logits_passed and result.tokens_passed):
            return f"the {rung} rung differs from eager: {described(result)}"
    return f"the {backend} program differs from eager (cached and traced agree with it): {described(found)}"


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

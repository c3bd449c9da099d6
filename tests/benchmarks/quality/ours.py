"""A bundle's program, fed a text a verification step at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.reference.executorch_program import set_runtime_threads
from runtime_shims.reference.loading import load_program
from runtime_shims.reference.program import Program, StepInputs
from tests.benchmarks.harness.job import Job
from tests.benchmarks.quality.logits import LogitsOf, write_logits


def load(job: Job) -> LogitsOf:
    set_runtime_threads(job.threads)
    bundle = read_bundle(Path(job.model), check_hashes=False)
    program, width = load_program(bundle, bundle.manifest.programs[0]), bundle.manifest.limits.max_logit_rows

    def logits_of(tokens: list[int]) -> np.ndarray:
        starts = range(0, len(tokens), width)
        return np.concatenate([step(program, tokens[start : start + width], start) for start in starts])

    return logits_of


def step(program: Program, tokens: list[int], position: int) -> np.ndarray:
    """Logits `[len(tokens), V]` of consecutive tokens from `position` on."""
    width = len(tokens)
    inputs = StepInputs(
        tokens=torch.tensor([tokens]),
        positions=torch.tensor([position]),
        step_lengths=torch.tensor([width]),
        logit_rows=torch.arange(width)[None],
        enc_lengths=None,
    )
    return program.decode(inputs)[0].numpy().copy()


if __name__ == "__main__":
    write_logits(load)

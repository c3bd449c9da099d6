"""Our program at one capacity, below the session: steps at chosen positions of caches that are full of real keys.

Memory is resident memory; the baseline is read when everything is imported and nothing is loaded.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import psutil
import torch

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.reference.executorch_program import ExecutorchProgram, set_runtime_threads
from runtime_shims.reference.program import StepInputs
from tests.benchmarks.capacity.model import text
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve

STEPS = 20


class BundleCapacity:
    cache_element_bytes = 4

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(1)
        set_runtime_threads(job.threads)
        self._job = job
        self._baseline = resident()
        bundle = read_bundle(Path(job.model), check_hashes=False)
        self._manifest = bundle.manifest
        self._program = ExecutorchProgram(bundle, bundle.manifest.programs[0])
        self.weights_bytes = bundle.manifest.memory.weights_bytes
        self._fill(max([*job.lives, len(job.prompts[0])]))

    def _fill(self, live: int) -> None:
        """Write `live` tokens, so that every step that is timed reads keys that were written."""
        chunk = self._manifest.recipe.prefill_chunk
        tokens = text(live)
        for start in range(0, live, chunk):
            self._run(tokens[start : start + chunk], start)

    def _run(self, tokens: list[int], position: int) -> torch.Tensor:
        return self._program.decode(
            StepInputs(
                tokens=torch.tensor([tokens]),
                positions=torch.tensor([position]),
                step_lengths=torch.tensor([len(tokens)]),
                logit_rows=torch.tensor([[len(tokens) - 1]]),
                enc_lengths=None,
            )
        )

    def check(self) -> dict[str, Any]:
        """Logits after the job's prompt."""
        prompt = self._job.prompts[0]
        return {"logits": self._run(prompt[-1:], len(prompt) - 1)[0, 0].tolist()}

    def time(self) -> dict[str, Any]:
        """Seconds of one step at every live length: medians over `STEPS`."""
        return {"seconds": [median_step(lambda: self._run([7], at)) for at in self._job.lives]}  # noqa: B023

    def endure(self) -> dict[str, Any]:
        """Memory after 1,000 steps at the largest live length."""
        for _ in range(1000):
            self._run([7], max(self._job.lives))
        memory = self._manifest.memory
        return {
            "resident_bytes": resident() - self._baseline,
            "promised_bytes": memory.weights_bytes + memory.planned_bytes,
            "cache_bytes": memory.cache_bytes,
        }


def median_step(step) -> float:
    """Seconds of one call: the median over `STEPS`, after two that are thrown away."""
    times = []
    for _ in range(STEPS + 2):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return statistics.median(times[2:])


def resident() -> int:
    """Resident memory of this process in bytes."""
    return psutil.Process().memory_info().rss


if __name__ == "__main__":
    serve(BundleCapacity, ["fixed-capacity", "executorch", "torch"])

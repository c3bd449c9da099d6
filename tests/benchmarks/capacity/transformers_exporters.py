"""`transformers.exporters` at one capacity: the same steps over its static cache, filled with noise to be timed."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.decode.eager import load_model, weights_bytes
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.harness.static_decode import StaticDecode

STEPS = 5
MAX_TOKENS = 32
"""Of one call: the exporter bounds the number of tokens, which nothing else does, by itself."""


class ExportedCapacity:
    cache_element_bytes = 4

    def __init__(self, job: Job) -> None:
        self._job = job
        model = load_model(job)
        directory = Path(job.work) / f"exporters-{Path(job.checkpoint).name}-{job.capacity}"
        self._program = StaticDecode(model, job.capacity, directory, job.threads)
        self.weights_bytes = weights_bytes(model)

    def check(self) -> dict[str, Any]:
        """Logits after the job's prompt."""
        self._program.begin()
        for chunk in torch.tensor(self._job.prompts).split(MAX_TOKENS, dim=1):
            logits = self._program.run(chunk)
        return {"logits": logits[0, -1].tolist()}

    def time(self) -> dict[str, Any]:
        """Seconds of one step at every live length: medians over `STEPS`."""
        return {"seconds": [self._median_step(live) for live in self._job.lives]}

    def _median_step(self, live: int) -> float:
        token, times = torch.tensor([[7]]), []
        for _ in range(STEPS + 1):
            self._program.fill(live)
            started = time.perf_counter()
            self._program.run(token)
            times.append(time.perf_counter() - started)
        return statistics.median(times[1:])


if __name__ == "__main__":
    serve(ExportedCapacity, ["transformers", "executorch", "torch"])

"""`transformers.exporters` to ExecuTorch with XNNPACK, over a static cache of the same capacity as our bundle's."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.benchmarks.decode.eager import load_model, weights_bytes
from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.harness.static_decode import StaticDecode


class ExportedDecoder:
    cache_element_bytes = 4

    def __init__(self, job: Job) -> None:
        """The model is only needed to export, and to say how its program is called."""
        model = load_model(job)
        directory = Path(job.work) / f"exporters-{Path(job.checkpoint).name}-{job.capacity}"
        self._program = StaticDecode(model, job.capacity, directory, job.threads)
        self.weights_bytes = weights_bytes(model)

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self._program.begin()
        return self._choose(torch.tensor(prompts))

    def step(self, tokens: list[int]) -> list[int]:
        return self._choose(torch.tensor(tokens)[:, None])

    def _choose(self, tokens: torch.Tensor) -> list[int]:
        return self._program.run(tokens)[:, -1].argmax(dim=-1).tolist()


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, ExportedDecoder(job)), ["transformers", "executorch", "torch"])

"""Stock transformers with its static cache, the step compiled by `torch.compile`; prompts run eagerly."""

from __future__ import annotations

import torch
from transformers import StaticCache

from tests.benchmarks.decode.eager import load_model, weights_bytes
from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve

WARM_STEPS = 8


class CompiledModel:
    cache_element_bytes = 4

    def __init__(self, job: Job) -> None:
        """Compile by running a few steps, so that no answer pays for it."""
        self._model = load_model(job)
        self._compiled = torch.compile(self._model.forward)
        self._cache = StaticCache(config=self._model.config, max_cache_len=job.capacity)
        self._length = 0
        self.weights_bytes = weights_bytes(self._model)
        for _ in range(2):
            tokens = self.begin(job.prompts)
            for _ in range(WARM_STEPS):
                tokens = self.step(tokens)

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self._cache.reset()
        self._length = 0
        return self._run(self._model, torch.tensor(prompts))

    def step(self, tokens: list[int]) -> list[int]:
        return self._run(self._compiled, torch.tensor(tokens)[:, None])

    @torch.no_grad()
    def _run(self, forward, tokens: torch.Tensor) -> list[int]:
        positions = torch.arange(self._length, self._length + tokens.shape[1])[None]
        self._length += tokens.shape[1]
        output = forward(input_ids=tokens, position_ids=positions, cache=self._cache, use_cache=True, logits_to_keep=1)
        return output.logits[:, -1].argmax(dim=-1).tolist()


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, CompiledModel(job)), ["transformers", "torch"])

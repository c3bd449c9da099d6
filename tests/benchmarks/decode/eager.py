"""Stock eager transformers, dynamic cache: a bare greedy loop, which costs less than `generate`."""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM, DynamicCache, PreTrainedModel

from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve


class EagerModel:
    cache_element_bytes = 4

    def __init__(self, job: Job) -> None:
        self._model = load_model(job)
        self._cache = DynamicCache(config=self._model.config)
        self.weights_bytes = weights_bytes(self._model)

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self._cache = DynamicCache(config=self._model.config)
        return self._run(torch.tensor(prompts))

    def step(self, tokens: list[int]) -> list[int]:
        return self._run(torch.tensor(tokens)[:, None])

    @torch.inference_mode()
    def _run(self, tokens: torch.Tensor) -> list[int]:
        output = self._model(input_ids=tokens, cache=self._cache, use_cache=True, logits_to_keep=1)
        return output.logits[:, -1].argmax(dim=-1).tolist()


def load_model(job: Job) -> PreTrainedModel:
    """The dense checkpoint in fp32, with the job's threads."""
    torch.set_num_threads(job.threads)
    return AutoModelForCausalLM.from_pretrained(job.checkpoint, dtype=torch.float32).eval().requires_grad_(False)


def weights_bytes(model: torch.nn.Module) -> int:
    """Bytes of all parameters, tied ones once."""
    return sum(parameter.nbytes for parameter in model.parameters())


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, EagerModel(job)), ["transformers", "torch"])

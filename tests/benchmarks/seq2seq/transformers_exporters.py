"""`transformers.exporters` to ExecuTorch with XNNPACK; every shape is exported anew."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.harness.static_seq2seq import StaticSeq2Seq
from tests.benchmarks.seq2seq.eager import greedy_but_end, load_model


class ExportedSeq2Seq:
    cache_element_bytes = 4
    weights_bytes = 0

    def __init__(self, job: Job) -> None:
        model = load_model(job)
        self._end, self._start = model.config.eos_token_id, model.config.decoder_start_token_id
        shape = f"{len(job.prompts)}-{len(job.prompts[0])}"
        place = Path(job.work) / f"exporters-{Path(job.checkpoint).name}-{shape}"
        self._program = StaticSeq2Seq(model, _source(job.prompts), job.capacity, place)
        self._program.load(job.threads)

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self._program.begin(_source(prompts))
        return self.step([self._start] * len(prompts))

    def step(self, tokens: list[int]) -> list[int]:
        return greedy_but_end(self._program.run(torch.tensor(tokens)[:, None])[:, -1], self._end)


def _source(prompts: list[list[int]]) -> dict[str, torch.Tensor]:
    tokens = torch.tensor(prompts)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, ExportedSeq2Seq(job)), ["transformers", "executorch", "torch"])

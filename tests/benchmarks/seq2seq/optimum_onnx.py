"""optimum-onnx: encoder and merged decoder as ONNX files, run by ONNX Runtime under `generate`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from optimum.onnxruntime import ORTModelForSeq2SeqLM
from transformers import StoppingCriteria, StoppingCriteriaList

from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.serve import serve, timed


class FirstToken(StoppingCriteria):
    """Stops nothing; notes when the first new token of every row was there."""

    def __init__(self) -> None:
        self.first: float | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        self.first = self.first or time.perf_counter()
        return torch.zeros(len(input_ids), dtype=torch.bool)


class OptimumOnnx:
    cache_element_bytes = 4
    weights_bytes = 0

    def __init__(self, job: Job) -> None:
        torch.set_num_threads(job.threads)
        self._job = job
        self._sources = torch.tensor(job.prompts)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = job.threads, 1
        directory = Path(job.work) / f"optimum-{Path(job.checkpoint).name}"
        if not directory.is_dir():
            aside = directory.with_name(f".{directory.name}.partial")
            ORTModelForSeq2SeqLM.from_pretrained(job.checkpoint, export=True).save_pretrained(aside)
            aside.rename(directory)
        self._model = ORTModelForSeq2SeqLM.from_pretrained(directory, session_options=options)

    def answer(self) -> Answer:
        watch = FirstToken()
        started = time.perf_counter()
        tokens = self._model.generate(
            self._sources,
            attention_mask=torch.ones_like(self._sources),
            max_new_tokens=self._job.new_tokens,
            min_new_tokens=self._job.new_tokens,
            do_sample=False,
            num_beams=1,
            stopping_criteria=StoppingCriteriaList([watch]),
        )
        return timed(tokens[:, 1:].tolist(), started, watch.first or started)


if __name__ == "__main__":
    serve(OptimumOnnx, ["optimum-onnx", "onnxruntime", "transformers"])

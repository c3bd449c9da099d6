"""llama.cpp, a token at a time."""

from __future__ import annotations

import numpy as np

from tests.benchmarks.decode.llama_cpp import LlamaCppModel
from tests.benchmarks.harness.job import Job
from tests.benchmarks.quality.logits import LogitsOf, write_logits


def load(job: Job) -> LogitsOf:
    model = LlamaCppModel(job)

    def logits_of(tokens: list[int]) -> np.ndarray:
        model.begin([tokens[:1]])
        rows = [model.last_logits()]
        for token in tokens[1:]:
            model.step([token])
            rows.append(model.last_logits())
        return np.stack(rows)

    return logits_of


if __name__ == "__main__":
    write_logits(load)

"""Eager transformers in fp32: what all others are held against."""

from __future__ import annotations

import torch
from transformers import AutoModelForCausalLM

from tests.benchmarks.harness.job import Job
from tests.benchmarks.quality.logits import LogitsOf, write_logits


def load(job: Job) -> LogitsOf:
    torch.set_num_threads(job.threads)
    model = AutoModelForCausalLM.from_pretrained(job.checkpoint, dtype=torch.float32).eval()

    def logits_of(tokens: list[int]):
        with torch.no_grad():
            return model(torch.tensor([tokens])).logits[0].numpy()

    return logits_of


if __name__ == "__main__":
    write_logits(load)

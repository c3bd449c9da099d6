"""A session over our bundle, all threads in the program runtime's pool."""

from __future__ import annotations

from pathlib import Path

import torch

from runtime_shims.contract.bundle_reader import read_bundle
from runtime_shims.reference.loading import open_session
from runtime_shims.reference.session import Session
from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve


class BundleModel:
    def __init__(self, job: Job) -> None:
        self._session = open_job_session(job)
        manifest = self._session.manifest
        self.weights_bytes = manifest.memory.weights_bytes
        self.cache_element_bytes = 2 if manifest.caches[0].dtype == "float16" else 4

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self._session.begin(prompts)
        return self._session.prefill().argmax(dim=-1).tolist()

    def step(self, tokens: list[int]) -> list[int]:
        return self._session.step([[token] for token in tokens])[:, 0].argmax(dim=-1).tolist()


def open_job_session(job: Job) -> Session:
    """A session with the job's threads; PyTorch's own pool would fight for the cores."""
    torch.set_num_threads(1)
    return open_session(read_bundle(Path(job.model), check_hashes=False), threads=job.threads)


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, BundleModel(job)), ["fixed-capacity", "executorch", "torch"])

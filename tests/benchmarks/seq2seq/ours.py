"""A session over our bundle; `begin` runs the encoder."""

from __future__ import annotations

from tests.benchmarks.decode.ours import open_job_session
from tests.benchmarks.harness.greedy import GreedyRival
from tests.benchmarks.harness.job import Job
from tests.benchmarks.harness.serve import serve
from tests.benchmarks.seq2seq.eager import greedy_but_end


class BundleSeq2Seq:
    cache_element_bytes = 4
    weights_bytes = 0

    def __init__(self, job: Job) -> None:
        self._session = open_job_session(job)
        self._rules = self._session.manifest.tokens

    def begin(self, prompts: list[list[int]]) -> list[int]:
        self._session.begin([self._rules.start] * len(prompts), prompts)
        return greedy_but_end(self._session.prefill(), self._rules.eos[0])

    def step(self, tokens: list[int]) -> list[int]:
        return greedy_but_end(self._session.step([[token] for token in tokens])[:, 0], self._rules.eos[0])


if __name__ == "__main__":
    serve(lambda job: GreedyRival(job, BundleSeq2Seq(job)), ["fixed-capacity", "executorch", "torch"])

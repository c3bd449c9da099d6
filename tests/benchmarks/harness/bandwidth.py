"""How fast this machine reads: the sum of one gigabyte of float32, taken in turns with the rivals.

It runs as a rival of its own. `decode` is the time of the fastest of a few sums, `weights_bytes` the bytes of one.
"""

from __future__ import annotations

import time

from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.rivals import Rival
from tests.benchmarks.harness.serve import serve

ELEMENTS = 1 << 28
SUMS = 5
PROBE = Rival("read probe", "sum", "harness.bandwidth", exact=None)


class ReadProbe:
    def __init__(self, job: Job) -> None:
        import torch

        torch.set_num_threads(job.threads)
        self._numbers = torch.ones(ELEMENTS)
        self.weights_bytes = self._numbers.nbytes
        self.cache_element_bytes = 4

    def answer(self) -> Answer:
        times = []
        for _ in range(SUMS):
            started = time.perf_counter()
            self._numbers.sum().item()
            times.append(time.perf_counter() - started)
        return Answer([[]], 0.0, min(times), min(times))


if __name__ == "__main__":
    serve(ReadProbe, ["torch"])

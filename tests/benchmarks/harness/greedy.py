"""The greedy loop that all text rivals share which can be driven step by step: same loop, same clock."""

from __future__ import annotations

import time
from typing import Protocol

from tests.benchmarks.harness.job import Answer, Job
from tests.benchmarks.harness.serve import timed


class StepModel(Protocol):
    """A model that takes prompts, then one token per row and step; both return the greedy next token per row.

    weights_bytes and cache_element_bytes are those of `harness.job.Loaded`.
    """

    weights_bytes: int
    cache_element_bytes: int

    def begin(self, prompts: list[list[int]]) -> list[int]: ...

    def step(self, tokens: list[int]) -> list[int]: ...


class GreedyRival:
    """`answer` and `follow` over a model that is driven step by step, past end-of-sequence."""

    def __init__(self, job: Job, model: StepModel) -> None:
        self._job = job
        self._model = model
        self.weights_bytes = model.weights_bytes
        self.cache_element_bytes = model.cache_element_bytes

    def answer(self) -> Answer:
        started = time.perf_counter()
        rows = [[token] for token in self._model.begin(self._job.prompts)]
        first = time.perf_counter()
        for _ in range(self._job.new_tokens - 1):
            for row, token in zip(rows, self._model.step([row[-1] for row in rows]), strict=True):
                row.append(token)
        return timed(rows, started, first)

    def follow(self, tokens: list[int]) -> list[int]:
        """Row 0 reads its prompt and then `tokens`, whatever it would have said itself."""
        choices = self._model.begin(self._job.prompts[:1])
        for token in tokens[:-1]:
            choices += self._model.step([token])
        return choices

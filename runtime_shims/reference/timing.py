"""Timing a session's steps without changing what it holds: each is taken back. Seconds of wall clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from runtime_shims.reference.session import Session

WARM_UP = 3


def median_of(repeats: int, measure: Callable[[], float]) -> float:
    """Median over `repeats` measurements, after a few that are thrown away."""
    for _ in range(WARM_UP):
        measure()
    return statistics.median(measure() for _ in range(repeats))


def step_timer(session: Session, tokens: Sequence[Sequence[int]]) -> Callable[[], float]:
    """A call that steps `tokens` per row, rolls them back, and returns the step's seconds."""

    def step() -> float:
        started = time.perf_counter()
        session.step(tokens)
        seconds = time.perf_counter() - started
        for row, row_tokens in enumerate(tokens):
            session.rollback(row, len(row_tokens))
        return seconds

    return step

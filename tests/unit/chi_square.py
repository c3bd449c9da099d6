"""Whether counts follow a distribution: Pearson's statistic against its critical value."""

from __future__ import annotations

import math
from collections.abc import Mapping

QUANTILE = 4.753
"""Of the standard normal distribution at 1 - 1e-6: how seldom a right sampler fails a test."""


def chi_square(counts: Mapping[object, int], expected: Mapping[object, float]) -> tuple[float, float]:
    """The statistic and its critical value (Wilson and Hilferty). An outcome that cannot be makes it infinite.

    Outcomes of fewer than 5 expected counts are put together.
    """
    total = sum(counts.values())
    if any(expected.get(outcome, 0.0) == 0.0 for outcome in counts):
        return math.inf, 1.0
    cells = [(counts.get(outcome, 0), mass * total) for outcome, mass in expected.items() if mass * total >= 5]
    rare = [(counts.get(outcome, 0), mass * total) for outcome, mass in expected.items() if 0 < mass * total < 5]
    if rare:
        cells.append((sum(found for found, _ in rare), sum(wanted for _, wanted in rare)))
    statistic = sum((found - wanted) ** 2 / wanted for found, wanted in cells)
    freedom = len(cells) - 1
    spread = 2 / (9 * freedom)
    return statistic, freedom * (1 - spread + QUANTILE * math.sqrt(spread)) ** 3

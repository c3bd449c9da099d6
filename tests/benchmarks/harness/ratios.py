"""Ratios that are held against a limit, and their table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Ratio:
    """A measured quotient; `limit` is the largest that is asked for, None for a rival's, which is only shown."""

    rival: str
    name: str
    value: float
    limit: float | None

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "met" if self.value <= self.limit else "missed"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict}


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Median over rounds of one round's quotient: both sides of it saw the same machine."""
    return statistics.median(over / under for over, under in zip(numerators, denominators, strict=True))


def ratio_table(ratios: Sequence[Ratio]) -> Table:
    """One row per ratio, with its limit beside it."""
    out = Table("rival", "ratio", "measured", "at most", "", box=None)
    for column in out.columns[2:4]:
        column.justify = "right"
    for ratio in ratios:
        limit = "" if ratio.limit is None else f"{ratio.limit:.2f}"
        out.add_row(ratio.rival, ratio.name, f"{ratio.value:.3f}", limit, ratio.verdict)
    return out

"""What the capacity task measures, and the ratios that it is asked for."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from tests.benchmarks.harness.ratios import Ratio, paired_ratio
from tests.benchmarks.harness.rivals import OURS

CAPACITIES = (256, 1024, 4096, 8192, 32768)
LIVE = 204
"""The fixed live length: 5 % of 4096, and it fits the smallest capacity."""
FILLS = (0.05, 0.5, 1.0)
EXACT_CAPACITIES = (LIVE + 1, int(0.05 * 32768) + 1)
"""Programs whose capacity is exactly the live length of a 5 % fill, of 4096 and of 32768, and the step's own token."""

AT_FILL_LIMIT, GROWTH_LIMIT = 1.15, 1.05
RESIDENT_SLACK_BYTES = 60_000_000
CACHE_LIMIT = 1.02


@dataclass(frozen=True)
class Point:
    """Seconds of one step at `live` positions of a program of `capacity`, one number per round."""

    rival: str
    capacity: int
    live: int
    seconds: tuple[float, ...]

    @property
    def milliseconds(self) -> float:
        return 1000 * statistics.median(self.seconds)

    def as_dict(self) -> dict[str, Any]:
        return {
            "rival": self.rival,
            "capacity": self.capacity,
            "live": self.live,
            "fill": self.live / self.capacity,
            "milliseconds": self.milliseconds,
            "round_seconds": list(self.seconds),
        }


def lives_of(capacity: int) -> list[int]:
    """Live lengths to time at a capacity: the fixed one and the fills; one more token must fit."""
    if capacity in EXACT_CAPACITIES:
        return [capacity - 1]
    fills = [min(int(capacity * fill), capacity - 1) for fill in FILLS]
    return sorted({LIVE, *fills})


def step_ratios(points: Sequence[Point]) -> list[Ratio]:
    """Ratios between steps, for every rival that has both of their sides."""
    found = {(point.rival, point.capacity, point.live): point for point in points}
    ratios = []
    for rival in dict.fromkeys(point.rival for point in points):
        ours = rival == OURS
        for exact in EXACT_CAPACITIES:
            live = exact - 1
            capacity = next(size for size in CAPACITIES if int(0.05 * size) == live)
            sides = found.get((rival, capacity, live)), found.get((rival, exact, live))
            name = f"step at 5 % fill of {capacity} / exact capacity {exact}"
            ratios += _ratio(rival, name, sides, AT_FILL_LIMIT if ours else None)
        least, most = min(CAPACITIES), max(CAPACITIES)
        for capacity in (8192, most):
            sides = found.get((rival, capacity, LIVE)), found.get((rival, least, LIVE))
            name = f"step at {LIVE} live, {capacity // least}-fold capacity"
            ratios += _ratio(rival, name, sides, GROWTH_LIMIT if ours else None)
    return ratios


def _ratio(rival: str, name: str, sides: tuple[Point | None, Point | None], limit: float | None) -> list[Ratio]:
    over, under = sides
    if over is None or under is None:
        return []
    return [Ratio(rival, name, paired_ratio(over.seconds, under.seconds), limit)]


def memory_ratios(memory: dict[int, dict[str, int]]) -> list[Ratio]:
    """What 1,000 steps leave resident against what was promised, by capacity, and caches against their plan.

    Nothing tells a cache's pages from others, so caches are what the largest capacity holds more than the smallest.
    """
    ratios = []
    for capacity, found in sorted(memory.items()):
        allowed = found["promised_bytes"] + RESIDENT_SLACK_BYTES
        name = f"resident after 1,000 steps / (weights + planned + 60 MB), capacity {capacity}"
        ratios.append(Ratio(OURS, name, found["resident_bytes"] / allowed, 1.0))
    if len(memory) > 1:
        least, most = min(memory), max(memory)
        held, planned = (memory[most][key] - memory[least][key] for key in ("resident_bytes", "cache_bytes"))
        name = f"caches resident / planned, capacity {most} against {least}"
        ratios.append(Ratio(OURS, name, held / planned, CACHE_LIMIT))
    return ratios


def point_table(points: Sequence[Point]) -> Table:
    """One row per point."""
    out = Table("rival", "capacity", "live", "fill", "ms per step", box=None)
    for column in out.columns[1:]:
        column.justify = "right"
    for point in points:
        fill = f"{100 * point.live / point.capacity:.0f} %"
        out.add_row(point.rival, str(point.capacity), str(point.live), fill, f"{point.milliseconds:.3f}")
    return out

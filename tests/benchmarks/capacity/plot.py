"""Step time as lines: against capacity at one live length, and against fill, one line per capacity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.capacity.points import EXACT_CAPACITIES, LIVE, Point


def plot_steps(points: Sequence[Point], file: Path) -> None:
    """Two panels; times on a logarithmic axis, because rivals differ by orders of magnitude."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    points = [point for point in points if point.capacity not in EXACT_CAPACITIES]
    figure, (by_capacity, by_fill) = pyplot.subplots(1, 2, figsize=(12, 4.5), sharey=True)
    for rival in dict.fromkeys(point.rival for point in points):
        own = [point for point in points if point.rival == rival]
        _line(by_capacity, [(point.capacity, point.milliseconds) for point in own if point.live == LIVE], rival)
        for capacity in sorted({point.capacity for point in own}):
            at_fills = [point for point in own if point.capacity == capacity and point.live != LIVE]
            line = [(100 * point.live / capacity, point.milliseconds) for point in at_fills]
            _line(by_fill, line, f"{rival}, {capacity} slots")
    by_capacity.set(xlabel=f"capacity in slots, {LIVE} live", ylabel="ms per step", xscale="log", yscale="log")
    by_fill.set(xlabel="fill, %")
    by_capacity.legend()
    by_fill.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def _line(axes, points: list[tuple[float, float]], label: str) -> None:
    axes.plot(*zip(*sorted(points), strict=True), marker="o", label=label) if points else None

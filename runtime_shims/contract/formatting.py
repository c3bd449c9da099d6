"""How sizes and layer numbers are written for people, the same in every message and table."""

from __future__ import annotations

from collections.abc import Iterable


def format_bytes(size: int) -> str:
    """`size` in the largest decimal unit that leaves at least one whole unit: `30.7 MB`."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if round(value, 1) < 1000:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def format_ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as ranges in rising order: 6, 0, 1, 2, 4 are `0-2, 4, 6`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)

"""How sizes, layer numbers and paths are written for people, the same in every message and table."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


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


def one_line(text: str) -> str:
    """A text without quotes, such as a path, on one line: what ends a line, or controls a terminal, escaped."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)

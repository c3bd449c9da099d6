"""Whether answers agree. Nothing is timed before this has been asked."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import chain

Rows = list[list[int]]


def first_difference(expected: Rows, got: Rows) -> str | None:
    """Where two answers part, as one line; None when they are equal."""
    if len(expected) != len(got):
        return f"{len(got)} rows instead of {len(expected)}"
    for row, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        for place, (one, other) in enumerate(zip(wanted, found, strict=False)):
            if one != other:
                return f"row {row} differs at token {place} of {len(wanted)}: {other} instead of {one}"
        if len(wanted) != len(found):
            return f"row {row} has {len(found)} tokens instead of {len(wanted)}"
    return None


def agreement(expected: list[int], got: list[int]) -> float:
    """Share of places with the same token. Raises ValueError for different lengths or no tokens."""
    if not expected or len(expected) != len(got):
        raise ValueError(f"{len(got)} choices for a continuation of {len(expected)} tokens")
    return sum(one == other for one, other in zip(expected, got, strict=True)) / len(expected)


def likeness(expected: Rows, got: Rows) -> float:
    """Share of tokens that two free answers have in common, in order: for rivals that cannot follow a text."""
    wanted, found = (list(chain.from_iterable(rows)) for rows in (expected, got))
    return SequenceMatcher(a=wanted, b=found, autojunk=False).ratio()

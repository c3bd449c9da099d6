"""Whole numbers as callers give them: Python's own, or those of an array library."""

from __future__ import annotations

import operator
from typing import Any

from runtime_shims.contract.errors import UserInputError

SHOWN_CHARACTERS = 60
"""A wrong value is quoted in a message up to this length."""


def as_integer(value: Any) -> int | None:
    """`value` as an `int`; None for what is no whole number by type: a bool, a float (1.0 too), a text, None."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def require_integer(name: str, value: Any, minimum: int) -> int:
    """`value` as an `int`. Raises UserInputError unless it is an integer (not a bool) of at least `minimum`."""
    number = as_integer(value)
    if number is None or number < minimum:
        raise UserInputError(f"{name} must be an integer >= {minimum}, got {pictured(value)}")
    return number


def pictured(value: object) -> str:
    """What Python writes for any value, on one short line."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of thousands of digits
        return f"an {type(value).__name__} of too many digits"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."

"""Sizes as people give them: decimal units, as file sizes are; binary ones with an `i`."""

from __future__ import annotations

import re
from fractions import Fraction

from exporter.spec.faults import RecipeError

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s*([KMGT]?)(I?)B?", re.IGNORECASE)


def parse_bytes(text: str, option: str = "--max-memory") -> int:
    """Bytes of `512M`, `1.5GB` (powers of 1000), `2GiB` (powers of 1024) or a plain number.

    Raises:
        RecipeError: `text` is not a size of at least one byte.
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match:
        base = 1024 if match[3] else 1000
        size = int(Fraction(match[1]) * base ** _POWERS[match[2].upper()])
    if size < 1:
        raise RecipeError("recipe", [f"{option} {text} is not a size; write it like 512M or 2G"])
    return size

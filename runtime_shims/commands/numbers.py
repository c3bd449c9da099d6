"""Numbers of a command line, as bundle-runner reads them too: plain decimals in ASCII.

Python's own readers take more - underscores, spaces, signs, other digits, `5.0` for a whole number, `inf` - which would
make a command line work here and fail there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from runtime_shims.console import WrongValue
from runtime_shims.contract.integers import pictured
from runtime_shims.reference.sampling_settings import LARGEST_INTEGER

_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MOST_DIGITS = 20  # of the largest number of 64 bits


def whole_number(option: str, least: int, most: int = LARGEST_INTEGER) -> Callable[[object], object]:
    """What reads the value of `option`: a whole number in the range. Its parser raises WrongValue."""

    def parse(given: object) -> object:
        if not isinstance(given, str):  # the default
            return given
        digits = given.lstrip("-").lstrip("0")
        if _INTEGER.fullmatch(given) and len(digits) <= _MOST_DIGITS and least <= int(given) <= most:
            return int(given)
        raise WrongValue(f"{option} must be a whole number in {least}..{most}, got {pictured(given)}")

    return parse


def number(option: str) -> Callable[[object], object]:
    """What reads the value of `option`: a number that is finite. Its parser raises WrongValue."""

    def parse(given: object) -> object:
        if not isinstance(given, str):
            return given
        if _NUMBER.fullmatch(given) and math.isfinite(float(given)):
            return float(given)
        raise WrongValue(f"{option} must be a number such as 0.7 or 1e-3, got {pictured(given)}")

    return parse

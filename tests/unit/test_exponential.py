"""The spelled-out exponential is the exponential, to the last unit."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_shims.reference.exponential import SMALLEST, exponential


def of(value: float) -> float:
    return float(exponential(np.array([value]))[0])


@settings(max_examples=2000, deadline=None)
@given(st.floats(SMALLEST, 0.0))
def test_it_is_within_one_unit_in_the_last_place(value: float) -> None:
    assert abs(of(value) - math.exp(value)) <= math.ulp(math.exp(value))


def test_the_exponential_of_zero_is_exactly_one() -> None:
    assert of(0.0) == of(-0.0) == 1.0


def test_it_ends_in_zero_before_results_lose_bits() -> None:
    assert of(SMALLEST) > 2.0**-1022
    assert [of(value) for value in (SMALLEST - 1e-9, -1e300, -math.inf)] == [0.0, 0.0, 0.0]


def test_it_never_falls_as_its_argument_rises() -> None:
    values = np.linspace(SMALLEST, 0.0, 100_001)
    assert (np.diff(exponential(values)) >= 0).all()


def test_a_value_does_not_depend_on_its_neighbours() -> None:
    values = -np.linspace(0.0, 50.0, 1003)
    together = exponential(values)
    assert all(of(value) == result for value, result in zip(values.tolist(), together.tolist(), strict=True))

"""The exponential function of float64 with every operation spelled out.

Libraries differ in the last bit of `exp`, and a sampled token may hang on that bit. Here it is additions and products
of IEEE 754 in one fixed order, so every language that computes in double precision gives the same bits, provided that
its compiler fuses no product with a sum (`-ffp-contract=off`).

    k = nearest integer to x * LOG2_E, ties to even
    r = (x - k * LN2_HIGH) - k * LN2_LOW          |r| <= 0.3466; the first product is exact
    p = 1 + r * (1/1! + r * (1/2! + ... r * 1/13!))    from the inside out
    exp(x) = p * 2^k                              0.0 for x < SMALLEST, where p * 2^k would lose bits

The result is within one unit in the last place. exp(0) is exactly 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LOG2_E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
SMALLEST = -708.0
COEFFICIENTS = tuple(1.0 / math.factorial(power) for power in range(14))
"""1/0! to 1/13!, each the quotient of two doubles."""


def exponential(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """exp of each value <= 0, minus infinity included, float64 of the same shape."""
    x = np.maximum(values, SMALLEST)
    k = np.rint(x * LOG2_E)
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = np.full_like(r, COEFFICIENTS[-1])
    for coefficient in reversed(COEFFICIENTS[:-1]):
        p = coefficient + r * p
    return np.where(values < SMALLEST, 0.0, np.ldexp(p, k.astype(np.int32)))

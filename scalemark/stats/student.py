"""Quantiles of Student's t; those of 95 % intervals without scipy, whose import takes longer than
most commands take.
"""

from __future__ import annotations

import math
from functools import lru_cache

LEVEL = 0.05
"""How often the truth may be outside a 95 % interval."""

# Chebyshev coefficients of its logarithm against 1 / freedom, between 0 and 1; fitted to
# scipy.special.stdtrit(freedom, 0.975).
_COEFFICIENTS = (
    *(1.533874183166, 0.940108009482, 0.074148752032, -0.005719475081, -0.000504949531),
    *(0.000198209478, -0.000010444575, -0.000004693300, 0.000000767907, 0.000000123502),
    *(-0.000000047321, -0.000000003591, 0.000000005165, -0.000000001457, 0.000000000189),
)


def log_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the logarithm of what |t| exceeds with probability `level`.

    `freedom` is 1 or more, also infinite. At 95 % it is right to 9 digits, and fast: thousands of
    tables' cells need it.
    """
    if level != LEVEL:
        return math.log(upper_quantile(level / 2, freedom))
    place = 4 / freedom - 2  # twice the place between -1 and 1, for Clenshaw's recurrence
    last = before = 0.0
    for coefficient in reversed(_COEFFICIENTS[1:]):
        last, before = coefficient + place * last - before, last
    return _COEFFICIENTS[0] + place / 2 * last - before


@lru_cache(maxsize=10_000)
def upper_quantile(level: float, freedom: float) -> float:
    """Return what t exceeds with probability `level`, between 0 and 1/2."""
    from scipy.special import ndtri, stdtrit

    return float(-ndtri(level) if math.isinf(freedom) else -stdtrit(freedom, level))


def chance_beyond(distance: float, freedom: float) -> float:
    """Return the chance that t exceeds a distance, for `freedom` of 1 or more, also infinite."""
    from scipy.special import ndtr, stdtr

    return float(ndtr(-distance) if math.isinf(freedom) else stdtr(freedom, -distance))

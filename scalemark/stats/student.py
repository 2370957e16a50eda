"""Student's t at any level and any degrees of freedom, without scipy: importing that takes longer
than most commands take.
"""

from __future__ import annotations

import math
from functools import lru_cache

LEVEL = 0.05
"""Of 95 % intervals: how often the truth may be outside."""

# Chebyshev coefficients of its logarithm against 1 / freedom, between 0 and 1; fitted to
# scipy.special.stdtrit(freedom, 0.975).
_COEFFICIENTS = (
    *(1.533874183166, 0.940108009482, 0.074148752032, -0.005719475081, -0.000504949531),
    *(0.000198209478, -0.000010444575, -0.000004693300, 0.000000767907, 0.000000123502),
    *(-0.000000047321, -0.000000003591, 0.000000005165, -0.000000001457, 0.000000000189),
)


_DOUBLINGS = 64  # of a bracket that begins at 1: enough for any level that is a number
_HALVINGS = 60
# of the continued fraction, which needs about as many as the root of the degrees of freedom
_MOST_TERMS = 500
_SMALLEST = 1e-300


def log_quantile(freedom: float, level: float = LEVEL) -> float:
    """Logarithm of what Student's t exceeds up or down with probability `level`, for a freedom of 1
    or more, also endless.
    """
    return (
        _usual_log_quantile(freedom)
        if level == LEVEL
        else math.log(upper_quantile(level / 2, freedom))
    )


def _usual_log_quantile(freedom: float) -> float:
    """Right to 9 digits; thousands of tables' cells need it."""
    place = 4 / freedom - 2  # twice the place between -1 and 1, as Clenshaw's recurrence wants it
    last = before = 0.0
    for coefficient in reversed(_COEFFICIENTS[1:]):
        last, before = coefficient + place * last - before, last
    return _COEFFICIENTS[0] + place / 2 * last - before


@lru_cache(maxsize=10_000)
def upper_quantile(level: float, freedom: float) -> float:
    """What Student's t exceeds with probability `level`, between 0 and 1/2; `freedom` of 1 or
    more.
    """
    high = next(2.0**n for n in range(_DOUBLINGS) if upper_tail(2.0**n, freedom) < level)
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, freedom) > level else (low, middle)
    return high


def upper_tail(t: float, freedom: float) -> float:
    """Probability that Student's t is larger than `t`, 0 or more (Abramowitz and Stegun, 26.7.1 and
    26.5.8).
    """
    if t == 0:
        return 0.5
    if math.isinf(freedom):
        return math.erfc(t / math.sqrt(2)) / 2
    share = freedom / (freedom + t * t)
    if share * (freedom + 5) < freedom + 2:  # where the continued fraction converges fast
        return _incomplete_beta(share, 1 - share, freedom / 2, 0.5) / 2
    return (1 - _incomplete_beta(t * t / (freedom + t * t), share, 0.5, freedom / 2)) / 2


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """Regularized, by the continued fraction as Lentz evaluates it; `rest` is 1 - x."""
    factor = (
        math.exp(
            math.lgamma(a + b)
            - math.lgamma(a)
            - math.lgamma(b)
            + a * math.log(x)
            + b * math.log(rest)
        )
        / a
    )
    down = 1 / _not_nought(1 - (a + b) * x / (a + 1))
    up, found = 1.0, down
    for m in range(1, _MOST_TERMS):
        before = found
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            down = 1 / _not_nought(1 + term * down)
            up = _not_nought(1 + term / up)
            found *= down * up
        if abs(found - before) < 1e-15 * abs(found):
            break
    return factor * found


def _not_nought(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST

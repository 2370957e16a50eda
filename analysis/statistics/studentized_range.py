"""Quantiles of the studentized range: how far the best of equals seems ahead of the worst.

`scipy.stats.studentized_range` has them, too, and takes a second to import and a tenth for each.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from scalemark.stats.welch import LEVEL, chance_beyond, upper_quantile

if TYPE_CHECKING:
    import numpy as np

_NUM_NODES = 80
_LARGEST = 8.0  # standard deviations: beyond there is nothing of a normal distribution
_NEAR = 1e-6  # of the quantile, as a share
_MOST_STEPS = 50


@lru_cache(maxsize=10_000)
def pair_quantile(num: int, freedom: float, level: float = LEVEL) -> float:
    """Return what the distance of the first and the last of `num` equals, 2 or more, exceeds with
    probability `level`, in standard errors of the distance of two.

    Tukey (1953). The error is known by so many degrees of freedom, 1 or more; of two choices it is
    the quantile of Student's t.
    """
    two = upper_quantile(level / 2, freedom)
    if num == 2:
        return two
    low, high = two, upper_quantile(level / (num * (num - 1)), freedom)  # Bonferroni's is larger
    for _ in range(_MOST_STEPS):
        middle = math.sqrt(low * high)
        if _exceeds(middle, num, freedom) > level:
            low = middle
        else:
            high = middle
        if high / low - 1 < _NEAR:
            break
    return high


def pair_level(num: int, freedom: float, level: float = LEVEL) -> float:
    """Return the level at which an interval of two alone would be as wide."""
    return 2 * chance_beyond(pair_quantile(num, freedom, level), freedom)


def _exceeds(distance: float, num: int, freedom: float) -> float:
    """Return the chance that equals differ by more."""
    import numpy as np
    from scipy.special import chdtri, ndtr

    nodes, weights_of_nodes = _nodes()
    # by the chance of a smaller error, with more places where it is small
    places = (nodes + 1) / 2
    errors = np.sqrt(chdtri(freedom, 1 - places**3) / freedom)
    weights = weights_of_nodes / 2 * 3 * places**2
    ranges = math.sqrt(2) * distance * errors[:, None]
    highest = _LARGEST * nodes
    density = np.exp(-(highest**2) / 2) / math.sqrt(2 * math.pi) * _LARGEST * weights_of_nodes
    within = (ndtr(highest) - ndtr(highest - ranges)) ** (num - 1)
    return float(weights @ (1 - num * within @ density))


@lru_cache
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Return places and weights of a quadrature; here, since numpy takes 0.1 s to import."""
    import numpy as np

    return np.polynomial.legendre.leggauss(_NUM_NODES)

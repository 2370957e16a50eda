"""Finds the rest of a warm-up: the first steps take longer, or shorter, and that fades.

```
  step time  |.
             | `.
             |   `--..__________    size x exp(-step / length), beside a straight line
```
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.slow_noise import log_likelihood
from scalemark.stats.trend import without_trend

FEWEST_STEPS = 70  # from which it is distinguished, as of two speeds
# so much more likely are the steps with it: of steady ones that do not resemble their neighbors
# 1 in 25 seem to be, and lose little by it
LEAST_GAIN = math.log(20.0)
# in which it fades by e, as shares of all steps: what takes longer is a drift for most of them
_LENGTHS = np.geomspace(0.03, 0.2, 64)
_MOST_MEDIANS = 40  # of neighbors, by which it is guessed: pauses do not move these
_FEWEST_NEIGHBORS = 5
_MOST_MEANS = 2000  # of neighbors, by which it is fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """The time that a warm-up adds to the steps of a process."""

    extra: NDArray[np.float64]  # of each step; below 0 where the first ones are faster
    # times as much as without it the mean of the others varies, since size and length are estimates
    inflation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shapes:
    """Warm-ups of size 1, one of each length, less a straight line."""

    around: NDArray[np.float64]  # (lengths, values), of so many neighbors each
    squares: NDArray[np.float64]  # (lengths,), sums of squares of these


def rough_warm_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Guess what it takes of each step, whatever pauses there are; 0 for fewer than 70 steps."""
    num = len(values)
    if num < FEWEST_STEPS:
        return np.zeros(num)
    num_joined = max(_FEWEST_NEIGHBORS, math.ceil(num / _MOST_MEDIANS))
    size, length = _best(np.median(_neighbors(values, num_joined), axis=1), num, num_joined)
    return size * _of_length(num, length)


def warm_up(smooth: NDArray[np.float64]) -> WarmUp | None:
    """Find one in steps without pauses; None for fewer than 70, or where they are about as likely
    without, by models of noise that remembers (`slow_noise`).
    """
    num = len(smooth)
    if num < FEWEST_STEPS:
        return None
    num_joined = math.ceil(num / _MOST_MEANS)
    size, length = _best(_neighbors(smooth, num_joined).mean(axis=1), num, num_joined)
    shape = _of_length(num, length)
    without = log_likelihood(without_trend(smooth))
    gain = log_likelihood(without_trend(smooth - size * shape)) - without
    if not gain > LEAST_GAIN:  # nan where nothing varies
        return None
    return WarmUp(extra=size * shape, inflation=_inflation(shape, length))


def _best(values: NDArray[np.float64], num: int, num_joined: int) -> tuple[float, float]:
    """Return size and length of the warm-up that with a straight line leaves least."""
    shapes = _shapes(num, num_joined)
    products = shapes.around @ without_trend(values)
    place = int(np.argmax(products**2 / shapes.squares))
    return float(products[place] / shapes.squares[place]), float(_LENGTHS[place])


def _inflation(shape: NDArray[np.float64], length: float) -> float:
    """Return it by least squares of a line, the size, and the length near this one."""
    num = len(shape)
    columns = np.array([shape, shape * np.arange(num) / (length * num)])
    means = columns.mean(axis=1)
    around = np.array([without_trend(one) for one in columns])
    return 1 + num * float(means @ np.linalg.solve(around @ around.T, means))


@lru_cache(maxsize=8)  # attempts of a trial have as many steps
def _shapes(num: int, num_joined: int) -> _Shapes:
    joined = [_neighbors(_of_length(num, one), num_joined).mean(axis=1) for one in _LENGTHS]
    around = np.array([without_trend(one) for one in joined])
    return _Shapes(around=around, squares=(around**2).sum(axis=1))


def _of_length(num: int, length: float) -> NDArray[np.float64]:
    """Return the warm-up of size 1 that so many steps have."""
    shape: NDArray[np.float64] = np.exp(-(np.arange(num) + 0.5) / (length * num))
    return shape


def _neighbors(values: NDArray[np.float64], num_joined: int) -> NDArray[np.float64]:
    """Return them in rows of so many."""
    num = len(values) // num_joined
    return values[: num * num_joined].reshape(num, num_joined)

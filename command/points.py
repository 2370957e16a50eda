"""Keeps what readings say as columns of numbers, however long a program runs."""

from __future__ import annotations

import math
from array import array

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 200_000  # with more, every second one is dropped; what is summed up stays whole

Column = NDArray[np.float64]


class Points:
    """Readings in their order, one row each; NaN stands for what a reading does not say."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most, self._stride, self._since_kept = most, 1, 0
        # steps so far, and the arrival of their line on the monotonic clock
        self._steps, self._arrivals = array("d"), array("d")
        self._own_s = array("d")  # on the program's own clock
        self._per_rate = array("d")  # sum of steps over rate so far: seconds per item of a step
        self._seconds = array("d")  # sum of steps times seconds per step so far
        self._losses = array("d")

    def __len__(self) -> int:
        return len(self._steps)

    def add(
        self,
        *,
        steps: float,
        arrival_s: float,
        own_s: float | None,
        per_rate: float | None,
        seconds: float | None,
        loss: float | None,
    ) -> None:
        self._since_kept += 1
        if self._since_kept < self._stride and self._steps:
            return
        self._since_kept = 0
        self._steps.append(steps)
        self._arrivals.append(arrival_s)
        self._own_s.append(_or_nan(own_s))
        self._per_rate.append(_or_nan(per_rate))
        self._seconds.append(_or_nan(seconds))
        self._losses.append(_or_nan(loss))
        if len(self) > self._most:
            self._halve()

    @property
    def steps(self) -> Column:
        return np.array(self._steps)

    @property
    def arrivals(self) -> Column:
        return np.array(self._arrivals)

    @property
    def own_s(self) -> Column:
        return np.array(self._own_s)

    @property
    def per_rate(self) -> Column:
        return np.array(self._per_rate)

    @property
    def seconds(self) -> Column:
        return np.array(self._seconds)

    @property
    def losses(self) -> Column:
        return np.array(self._losses)

    def _halve(self) -> None:
        for column in (
            *(self._steps, self._arrivals, self._own_s),
            *(self._per_rate, self._seconds, self._losses),
        ):
            column[:] = column[::2]
        self._stride *= 2


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value

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
        self._means = array("d")  # items per second over all steps so far, or smoothed

    @property
    def _columns(self) -> tuple[array[float], ...]:
        return (
            *(self._steps, self._arrivals, self._own_s),
            *(self._per_rate, self._seconds, self._losses, self._means),
        )

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
        mean: float | None = None,
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
        self._means.append(_or_nan(mean))
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

    @property
    def means(self) -> Column:
        return np.array(self._means)

    def add_mean(self, mean: float) -> None:
        """Take a mean that stands in a line of its own, after that of its step."""
        if self._means and math.isnan(self._means[-1]):
            self._means[-1] = mean

    def drop(self, step: float) -> int:
        """Drop the rows from a step on; return how many."""
        num_kept = int(np.searchsorted(self._steps, step))
        num_dropped = len(self) - num_kept
        for column in self._columns:
            del column[num_kept:]
        return num_dropped

    def last_known(self, column: Column) -> tuple[float, float]:
        """Return the step of the last value of a column, and the value; 0 and 0 without one."""
        known = np.flatnonzero(np.isfinite(column))
        return (self._steps[known[-1]], float(column[known[-1]])) if len(known) else (0.0, 0.0)

    def move(self, arrivals: Column) -> None:
        """Say anew when the lines came."""
        self._arrivals = array("d", arrivals)

    def _halve(self) -> None:
        for column in self._columns:
            column[:] = column[::2]
        self._stride *= 2


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value

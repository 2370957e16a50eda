"""Follows the steps that a program tells of, and when they were: by its own rates, by its own
clock, or by the arrival of its lines.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from command.clocks import LEAST_BETWEEN_S
from command.cut import TOO_CLOSE, Calls, Clock, CurveError, Readings, cut
from command.means import Fit, fitted
from command.points import Column, Points
from scalemark.readers.reading import Reading

_LEAST_COARSE_S = 20.0  # a clock of whole seconds is good enough for steps of so long


class Curve:
    """Takes readings in their order."""

    def __init__(self) -> None:
        self.has_steps = False  # readings without a step are passed over from then on
        self.last_arrival_s = 0.0
        self.unsure_steps = 0
        self.began_anew_s: float | None = None  # the numbers of steps, for the last time
        self._last_step: int | None = None
        self._steps_before = 0
        self._begin()

    def _begin(self) -> None:
        self.num_readings = 0
        self._points = Points()
        self._steps = self._per_rate = self._seconds = 0.0
        self._unrated = self._untimed = 0  # steps since the last reading with a rate or a time

    @property
    def num_steps(self) -> int:
        return int(self._steps)

    def add(
        self,
        reading: Reading,
        arrival_s: float,
        loss: float | None,
        mean: float | None = None,
    ) -> bool:
        """Take a reading with a step or a rate, which is of all replicas, as is `mean`, in items
        per second over all steps so far; return whether it tells of something new.

        A step that is not above the one before takes back what was counted from it on.
        """
        num_steps = self._num_new(reading.step)
        if num_steps is None:
            return False
        self.num_readings += 1
        self.last_arrival_s = arrival_s
        self.unsure_steps = reading.unsure_steps
        if reading.steps_before != self._steps_before:
            self._steps_before, self.began_anew_s = reading.steps_before, arrival_s
        self._steps += num_steps
        self._unrated += num_steps
        self._untimed += num_steps
        if reading.throughput:
            self._per_rate += self._unrated / reading.throughput
            self._unrated = 0
        if reading.step_s:
            self._seconds += self._untimed * reading.step_s
            self._untimed = 0
        self._points.add(
            steps=self._steps,
            arrival_s=arrival_s,
            own_s=reading.time_s,
            per_rate=self._per_rate if reading.throughput else None,
            seconds=self._seconds if reading.step_s else None,
            loss=loss,
            mean=mean,
        )
        return True

    def add_mean(self, mean: float) -> None:
        """Take items per second over all steps so far, reported after the line of the last step."""
        self._points.add_mean(mean)

    def place(self, epoch_s: float, started_s: float, ended_s: float) -> None:
        """Take the program's own times for the arrivals of what came at once, as from a file.

        A clock that counts from 1970, which began at `epoch_s` of the monotonic clock, tells when
        it was; any other is taken to end with the program.
        """
        own_s = self._points.own_s
        if len(own_s) < 2 or not np.isfinite(own_s).all() or (np.diff(own_s) < 0).any():
            return
        is_whole = bool((own_s == np.floor(own_s)).all())
        if own_s[-1] - own_s[0] < (_LEAST_COARSE_S if is_whole else LEAST_BETWEEN_S):
            return
        at_s = own_s + epoch_s
        if at_s[0] < started_s or at_s[-1] > ended_s + 1:
            at_s = own_s - own_s[-1] + ended_s
        self._points.move(at_s)

    @property
    def mean_rate(self) -> float | None:
        """Return the items per second of all that was rated; None without a rate."""
        rated = self._steps - self._unrated
        return rated / self._per_rate if self._per_rate and rated else None

    def calls(
        self, items_per_step: float | None, *, run_s: float = 0.0, by_lines: bool = False
    ) -> Calls:
        """Cut the curve. `by_lines`: what the program says of time is passed over.

        Rates of lines that came at once are spread over `run_s`. Raises CurveError.
        """
        points = self._points
        by_arrival = Readings(
            steps=points.steps,
            times=points.arrivals,
            arrivals=points.arrivals,
            losses=points.losses,
        )
        if by_lines:
            return cut(Clock.ARRIVAL, by_arrival, items_per_step)
        for column, is_rate in ((points.seconds, False), (points.per_rate, True)):
            known = np.isfinite(column)
            if known.sum() * 2 <= len(column):
                continue
            readings, items = replace(by_arrival, times=column).where(known), items_per_step
            if is_rate:
                items = items or _items(readings.arrivals, readings.times, run_s)
                readings = replace(readings, times=readings.times * items)
            elif items is None:
                items = self.items_by_rates
            calls = cut(Clock.RATE, readings, items)
            return replace(calls, is_fitted=is_rate and items_per_step is None)
        if _is_good_clock(points.own_s):
            return cut(Clock.OWN, replace(by_arrival, times=points.own_s), items_per_step)
        return cut(Clock.ARRIVAL, by_arrival, items_per_step)

    @property
    def items_by_rates(self) -> float | None:
        """Return the items per step of a program that tells both items/s and the time of a step."""
        return self._seconds / self._per_rate if self._seconds and self._per_rate else None

    def items_by_means(self, begin_s: float) -> Fit | None:
        """Return the items per step by the means of lines that came from `begin_s` on, or of all
        where these are few.
        """
        points = self._points
        known = np.isfinite(points.means)
        steps, arrivals, means = points.steps[known], points.arrivals[known], points.means[known]
        return fitted(steps, arrivals, means, begin_s) or fitted(steps, arrivals, means, -math.inf)

    def _num_new(self, step: int | None) -> int | None:
        """Return how many steps a reading adds; None for one that tells of no new ones."""
        if step is None:
            return None if self.has_steps else 1
        if not self.has_steps:
            self.has_steps = True
            self._begin()  # these are better than what was read so far
        if self._last_step is not None and step <= self._last_step:
            self._take_back(step)
        last = self._last_step or 0
        self._last_step = step
        return max(0, step - last)

    def _take_back(self, step: int) -> None:
        """Drop what was counted from a step on: it was an evaluation, and training goes on."""
        points = self._points
        self.num_readings -= points.drop(step)
        self._steps = float(points.steps[-1]) if len(points) else 0.0
        rated_to, self._per_rate = points.last_known(points.per_rate)
        timed_to, self._seconds = points.last_known(points.seconds)
        self._unrated, self._untimed = int(self._steps - rated_to), int(self._steps - timed_to)
        self._last_step = int(self._steps)


def _items(arrivals: Column, per_rate: Column, run_s: float) -> float:
    """Return the items per step by which the rates fill the time between the lines, or of lines
    that came at once `run_s`.

    Raises CurveError.
    """
    between_s, of_rates = arrivals[-1] - arrivals[0], per_rate[-1] - per_rate[0]
    if between_s < LEAST_BETWEEN_S:
        between_s = run_s
    if between_s <= 0 or of_rates <= 0:
        raise CurveError(TOO_CLOSE)
    return float(between_s / of_rates)


def _is_good_clock(own_s: Column) -> bool:
    """Return whether every reading has a time of its own, never going back, and fine enough."""
    if len(own_s) < 2 or not np.isfinite(own_s).all() or (np.diff(own_s) < 0).any():
        return False
    is_whole = bool((own_s == np.floor(own_s)).all())
    return not is_whole or float(np.median(np.diff(own_s))) >= _LEAST_COARSE_S

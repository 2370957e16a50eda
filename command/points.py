"""Keeps what readings say as columns of numbers, and what a program reports of its whole run."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalemark.readers.reading import Reading
from scalemark.records.measurement import ITEMS, STEPS, is_item
from scalemark.records.trial import TrialSpec

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


# words for one example of a batch; whatever a user's examples are may be called so
_EXAMPLES = frozenset(("examples", "instances", "records", "rows", "samples", ITEMS))
_OF_ONE_KIND = (
    frozenset(("tokens", "words")),  # fairseq counts tokens and says words
    _EXAMPLES | {"images", "sequences", "sentences"},
)
_PARTS = frozenset(("tokens", "words", "frames", "points", "atoms", STEPS))  # many in an example


class RunSummary:
    """The last report of each, in the item that was asked for where the program reports several."""

    def __init__(self, asked: str) -> None:
        self.total: Reading | None = None
        self.mean: Reading | None = None
        self.item = ""  # of the rates and of items_per_step, as the output calls it
        self.items_per_step: float | None = None
        self._asked = asked

    def take(self, reading: Reading) -> None:
        """Take any reading, of all replicas."""
        is_other = self.is_other(reading)
        # a total may count something else than the rates before it
        is_total = reading.is_total and reading.step is None
        is_better = not self.item or (not is_total and self._was_other(self.item))
        if reading.item and is_better:
            self.item = reading.item
        if reading.items_per_step and not is_other:
            self.items_per_step = reading.items_per_step
            self.item = reading.item or self.item
        if reading.is_mean and reading.has_rate and not (self._has(self.mean) and is_other):
            self.mean = reading

    def take_total(self, reading: Reading) -> bool:
        """Take a rate of the whole run; return whether there was one before, so that it may be
        none, but of all replicas so far.
        """
        is_again = self.total is not None
        if not (self._has(self.total) and self.is_other(reading)):
            self.total = reading
        return is_again

    def of_run(self, items_per_step: float | None) -> tuple[float, str] | None:
        """Return the items per second of the whole run, and the item; None where none is reported.

        What was asked for comes before another item, and the total before the mean.
        """
        known: list[tuple[float, str]] = []
        for reading in (self.total, self.mean):
            if reading and reading.throughput is not None:
                known.append((reading.throughput, reading.item or self.item))
            elif reading and reading.step_s and items_per_step:
                known.append((items_per_step / reading.step_s, self.item))
        return min(known, key=lambda reported: self._was_other(reported[1]), default=None)

    def is_other(self, reading: Reading) -> bool:
        """Return whether a reading counts something else than was asked for."""
        return self._was_other(reading.item)

    def _was_other(self, item: str) -> bool:
        return are_other(self._asked, item)

    def _has(self, reading: Reading | None) -> bool:
        return reading is not None and not self.is_other(reading)


def label(spec: TrialSpec, reported: str, *, is_known: bool, is_reported: bool) -> str:
    """Return what is counted: steps, where nothing says how many items a step has.

    `is_reported`: the program counts them, and not the trial's items_per_step.
    """
    if not is_known:
        return STEPS
    reported = reported if is_item(reported) else ""
    if is_reported and reported and are_other(spec.item, reported):
        return reported
    return spec.item or reported or ITEMS


def are_other(asked: str, reported: str) -> bool:
    """Return whether a program counts something else than was asked for; unknown where either is
    empty.
    """
    asked, reported = _plural(asked), _plural(reported)
    if not asked or not reported or asked == reported or reported == ITEMS:
        return False
    if any(asked in kind and reported in kind for kind in _OF_ONE_KIND):
        return False
    return reported not in _EXAMPLES or asked in _PARTS


def _plural(item: str) -> str:
    item = item.lower()
    return item if not item or item.endswith("s") else f"{item}s"


LEAST_SPAN_S = 0.05
_AS_GOOD = 1e-3  # misfits, as shares of the time, by less than which two are alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A line through what was seen."""

    items_per_step: float
    misfit: float  # standard deviation of times from the line, over the time between the ends
    is_mean: bool = True  # the rates are means since the begin, and not those between lines


def are_last(times: Column) -> NDArray[np.bool_]:
    """Return which readings are the last of their moment: lines may come at once."""
    return np.append(np.diff(times) > 0, True)


def fitted(steps: Column, arrivals: Column, means: Column, begin_s: float) -> Fit | None:
    """Fit the means of lines that came from `begin_s` on; None where these are too close, or few.

    What came before tells only where the program resumed.
    """
    since = arrivals >= begin_s
    if since.sum() < 2:
        return None
    resumed_at = max(0.0, steps[0] - float(np.median(np.diff(steps))))
    steps, arrivals, means = steps[since], arrivals[since], means[since]
    is_last = are_last(arrivals)
    if is_last.sum() < 2 or arrivals[-1] - arrivals[0] < LEAST_SPAN_S:
        return None
    of_each_line = np.concatenate([[0.0], np.diff(steps) / means[1:]])
    per_rate = (
        steps / means,
        (steps - resumed_at) / means,
        np.cumsum(of_each_line),
    )
    arrivals = arrivals[is_last]
    fits = []
    for column, is_mean in zip(per_rate, (True, True, False), strict=True):
        fit = _line(column[is_last], arrivals)
        if fit:
            fits.append(replace(fit, is_mean=is_mean))
    if not fits:
        return None
    best = min(fit.misfit for fit in fits)
    as_good = [fit for fit in fits if fit.misfit <= best + _AS_GOOD]
    return min(as_good, key=lambda fit: fit.is_mean)


def _line(per_mean: Column, arrivals: Column) -> Fit | None:
    if np.ptp(per_mean) <= 0:
        return None
    slope, begin_s = np.polyfit(per_mean, arrivals, 1)
    if slope <= 0:
        return None
    off_s = arrivals - begin_s - slope * per_mean
    span_s = arrivals[-1] - arrivals[0]
    return Fit(items_per_step=float(slope), misfit=float(np.std(off_s) / span_s))

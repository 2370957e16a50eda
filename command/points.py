"""Keeps what a program prints: a row of numbers per line, and what it reports of its whole run.

```
  line ─► Reading ─┬─► Points      a row: its step, when it came, rate, mean so far, loss
                   └─► RunSummary  the last total and mean, and the item that they count
  Points ─► fitted()               items per step, where a program prints means alone
```
"""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from scalemark.readers.opening import Reading
from scalemark.readers.words import EVALUATION, EXAMPLES, are_of_one_kind
from scalemark.records.measurement import ITEMS, STEPS, is_item
from scalemark.records.trial import TrialSpec

MOST_POINTS = 1_000_000  # 56 MB; what comes after them is not timed

Column = NDArray[np.float64]


_COLUMNS = (
    "steps",  # so far
    "epoch_began",  # after how many of them
    "arrivals",  # of their lines, on the monotonic clock
    "own_s",  # on the program's own clock
    "rates",  # items per second, of the steps since the row before
    "step_s",  # seconds per step, likewise
    "losses",
    "means",  # items per second over all steps so far, or smoothed
)


class Points:
    """Readings in their order, one row each; NaN stands for what a reading does not say."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._columns = {name: array("d") for name in _COLUMNS}

    def __len__(self) -> int:
        return len(self._columns["steps"])

    def __getitem__(self, name: str) -> Column:
        """Return a copy of a column."""
        return np.array(self._columns[name])

    def add(self, **values: float | None) -> None:
        """Take a row, of values by the names of their columns, unless there are too many."""
        if len(self) == self._most:
            return
        for name, column in self._columns.items():
            value = values.get(name)
            column.append(math.nan if value is None else value)

    def add_mean(self, mean: float) -> None:
        """Take a mean that stands in a line of its own, after that of its step."""
        means = self._columns["means"]
        if 0 < len(means) < self._most and math.isnan(means[-1]):
            means[-1] = mean

    def drop(self, step: float) -> int:
        """Drop the rows from a step on; return the step of the last row, 0 without one."""
        steps = self._columns["steps"]
        num_kept = int(np.searchsorted(steps, step))
        for column in self._columns.values():
            del column[num_kept:]
        if num_kept:
            return int(steps[-1])
        return 0

    def move(self, arrivals: Column) -> None:
        """Say anew when the lines came."""
        self._columns["arrivals"] = array("d", arrivals)

    @property
    def per_rate(self) -> Column:
        """Return the sum of steps / items per second: seconds, if a step had one item."""
        return self._summed(1 / self["rates"])

    @property
    def seconds(self) -> Column:
        """Return the sum of steps * seconds per step."""
        return self._summed(self["step_s"])

    def total(self, sums: Column) -> tuple[float, float]:
        """Return the steps up to the last known sum, and that sum; 0 and 0 without one."""
        known = np.flatnonzero(np.isfinite(sums))
        if not len(known):
            return 0.0, 0.0
        return self._columns["steps"][known[-1]], float(sums[known[-1]])

    def _summed(self, per_step: Column) -> Column:
        """Add up over the steps since the last row that knows it; NaN in rows that do not."""
        known = np.isfinite(per_step)
        sums = np.full(len(self), math.nan)
        sums[known] = np.cumsum(np.diff(self["steps"][known], prepend=0.0) * per_step[known])
        return sums


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
        is_better = not self.item or (not is_total and are_other(self._asked, self.item))
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
        return min(known, key=lambda reported: are_other(self._asked, reported[1]), default=None)

    def is_other(self, reading: Reading) -> bool:
        """Return whether a reading counts something else than was asked for."""
        return are_other(self._asked, reading.item)

    def _has(self, reading: Reading | None) -> bool:
        return reading is not None and not self.is_other(reading)


_APART = 1.05  # rates of two phases
_FAR_APART = 1.5  # those of lines of the same words
_MOST_KINDS = 20  # of lines that are compared
_FEWEST_TURNS = 3  # from one kind of lines to another, which are no parts of a run then


def two_phases(rated: Sequence[tuple[frozenset[str], float]]) -> str:
    """Say which words part lines of two phases, by their rates; empty where these are of one."""
    rates: dict[frozenset[str], list[float]] = {}
    for words, rate in rated:
        rates.setdefault(words, []).append(rate)
    kinds = sorted(rates, key=lambda words: len(rates[words]))[-_MOST_KINDS:]
    usual = {words: float(np.median(rates[words])) for words in kinds}
    for slow, fast in combinations(sorted(kinds, key=usual.__getitem__), 2):
        if np.quantile(rates[fast], 0.25) <= _APART * np.quantile(rates[slow], 0.75):
            continue
        order = [words for words, _ in rated if words in (slow, fast)]
        num_turns = sum(after != before for before, after in pairwise(order))
        if num_turns < _FEWEST_TURNS and not EVALUATION & (slow ^ fast):
            continue
        said = []
        for own, other in ((slow, fast), (fast, slow)):
            named = " ".join(map(repr, sorted(own - other))) or f"no {min(other - own)!r}"
            said.append(f"lines with {named} say {usual[own]:.4g}")
        return f"{', and '.join(said)}; write the words of one into read="
    values = np.array([rate for _, rate in rated])
    ordered = np.sort(values)
    jumps = ordered[1:] / ordered[:-1]
    if not len(jumps) or jumps.max() <= _FAR_APART:
        return ""
    is_fast = values >= ordered[jumps.argmax() + 1]
    num_turns, num_fast = np.diff(is_fast).sum(), is_fast.sum()
    if not _FEWEST_TURNS <= num_turns <= min(num_fast, len(values) - num_fast):
        return ""  # or a few pauses
    slow, fast = np.median(values[~is_fast]), np.median(values[is_fast])
    return f"they say {slow:.4g} and {fast:.4g} by turns; let each line name its phase"


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
    """Return whether a program counts something else than was asked for, if both are known."""
    asked, reported = _plural(asked), _plural(reported)
    if not asked or not reported or asked == reported or reported == ITEMS:
        return False
    if are_of_one_kind(asked, reported):
        return False
    return reported not in EXAMPLES or asked in _PARTS


def _plural(item: str) -> str:
    item = item.lower()
    if not item or item.endswith("s"):
        return item
    return f"{item}s"


LEAST_SPAN_S = 0.05
_AS_GOOD = 1e-3  # misfits, as shares of the time, by less than which two are alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A line through what was seen."""

    items_per_step: float
    misfit: float  # standard deviation of times from the line, over the time between the ends
    drift: float  # by which share the line of the second half is steeper or less
    is_mean: bool = True  # the rates are means since the begin, and not those between lines


def are_last(times: Column) -> NDArray[np.bool_]:
    """Return which readings are the last of their moment: lines may come at once."""
    return np.append(np.diff(times) > 0, True)


def fitted(
    steps: Column, epoch_began: Column, arrivals: Column, means: Column, begin_s: float
) -> Fit | None:
    """Fit the means of lines that came from `begin_s` on; None where these are too close, or few.

    What came before tells only where the program resumed. Means may begin anew in each epoch.
    """
    since = arrivals >= begin_s
    if since.sum() < 2:
        return None
    resumed_at = max(0.0, steps[0] - float(np.median(np.diff(steps))))
    steps, epoch_began = steps[since], epoch_began[since]
    arrivals, means = arrivals[since], means[since]
    is_last = are_last(arrivals)
    if is_last.sum() < 2 or arrivals[-1] - arrivals[0] < LEAST_SPAN_S:
        return None
    of_each_line = np.concatenate([[0.0], np.diff(steps) / means[1:]])
    of_epoch = (steps - epoch_began) / means
    begins_anew = np.diff(epoch_began, prepend=epoch_began[0]) != 0
    per_rate = (
        steps / means,
        (steps - resumed_at) / means,
        of_epoch + np.cumsum(np.where(begins_anew, np.roll(of_epoch, 1), 0.0)),
        np.cumsum(of_each_line),
    )
    arrivals = arrivals[is_last]
    fits = []
    for column, is_mean in zip(per_rate, (True, True, True, False), strict=True):
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
    half = len(arrivals) // 2
    drift = 0.0
    if half > 1 and np.ptp(per_mean[half:]) > 0:
        drift = abs(np.polyfit(per_mean[half:], arrivals[half:], 1)[0] / slope - 1)
    return Fit(
        items_per_step=float(slope), misfit=float(np.std(off_s) / span_s), drift=float(drift)
    )

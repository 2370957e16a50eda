"""Two speeds of a process that took turns, as those of a clock, and pauses among its steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.welch import log_quantile

_OF_NORMAL = 1.4826  # median absolute deviation -> standard deviation of a normal distribution


def median_deviation(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return 1.4826 x the median absolute deviation, as tf_cnn_benchmarks defines jitter."""
    return _OF_NORMAL * float(np.median(np.abs(np.asarray(values) - np.median(values))))


# of fewer steps, those that resemble their neighbors for long are taken for two speeds too often
FEWEST_STEPS = 70
LEAST_SHARE = 0.03  # of all steps, at either speed: fewer are a pause
# standard deviations of the steps at one speed between both: steps that resemble their neighbors
# for long are taken for two speeds more often with less, and seldom speeds are missed with more
LEAST_APART = 2.5
_MOST_VALUES = 200  # of more, means of neighbors: all runs of them are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSpeeds:
    """The steps of a process, both speeds taken out."""

    rest: NDArray[np.float64]  # of each step
    slower: float  # by how much time steps of the slower speed exceed the mean; above 0
    faster: float  # by how much those of the faster one are below it; above 0

    @property
    def variance(self) -> float:
        """Return how much the speed of a step varies by being either."""
        return self.slower * self.faster


def two_speeds(values: NDArray[np.float64], around: NDArray[np.float64]) -> TwoSpeeds | None:
    """Find the run of steps that differs most from all others (Levin & Kline 1985,
    doi:10.1002/sim.4780040408); `around` is what a drift or a warm-up leaves of the values.

    Returns None for fewer than 70 steps, where it does not stand apart, or where that is no more.
    """
    if len(values) < FEWEST_STEPS:
        return None
    num_joined = math.ceil(len(values) / _MOST_VALUES)
    joined = _joined(values, num_joined)
    run = _run_that_differs_most(joined)
    is_in_run = _mask(len(joined), run)
    speed, other = joined[is_in_run].mean(), joined[~is_in_run].mean()
    speeds = np.where(is_in_run, speed, other)
    left = float(np.sum((joined - speeds) ** 2))
    least = LEAST_APART * math.sqrt(left / (len(joined) - 2))
    around_left = float(np.sum(_joined(around, num_joined) ** 2))
    if left >= around_left or not _stand_apart(joined[is_in_run], joined[~is_in_run], least):
        return None
    stop = len(values) if run.stop == len(joined) else run.stop * num_joined
    return _taken_apart(values, slice(run.start * num_joined, stop))


def _run_that_differs_most(values: NDArray[np.float64]) -> slice:
    """Return where a run has another mean than the others with the least left."""
    num = len(values)
    begins, ends = _runs(num)
    lengths = ends - begins
    before = np.concatenate([[0.0], np.cumsum(values)])
    explained = (before[ends] - before[begins]) ** 2 * (1 / lengths + 1 / (num - lengths))
    best = int(np.argmax(explained))
    return slice(int(begins[best]), int(ends[best]))


def _stand_apart(run: NDArray[np.float64], others: NDArray[np.float64], least: float) -> bool:
    """Return whether both means do, which other runs would bring together, and both medians, which
    pauses do not move.
    """
    if abs(run.mean() - others.mean()) <= least:
        return False
    return bool(abs(np.median(run) - np.median(others)) > least)


def _mask(num: int, run: slice) -> NDArray[np.bool_]:
    """Return which of so many values are in the run."""
    is_in_run = np.zeros(num, dtype=bool)
    is_in_run[run] = True
    return is_in_run


def _joined(values: NDArray[np.float64], num_joined: int) -> NDArray[np.float64]:
    """Return means of so many neighbors, less the mean of all."""
    num = len(values) // num_joined
    means = values[: num * num_joined].reshape(num, num_joined).mean(axis=1)
    joined: NDArray[np.float64] = means - means.mean()
    return joined


@lru_cache(maxsize=4)  # attempts of a trial have as many steps
def _runs(num: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return begin and end of all runs of so many values that leave enough at either speed."""
    fewest = math.ceil(LEAST_SHARE * num)
    begins, ends = np.triu_indices(num + 1, fewest)
    is_enough = ends - begins <= num - fewest
    return begins[is_enough], ends[is_enough]


def _taken_apart(values: NDArray[np.float64], run: slice) -> TwoSpeeds:
    is_in_run = _mask(len(values), run)
    speeds = values[is_in_run].mean(), values[~is_in_run].mean()
    mean = values.mean()
    return TwoSpeeds(
        rest=values - np.where(is_in_run, *speeds),
        slower=float(max(speeds) - mean),
        faster=float(mean - min(speeds)),
    )


MOST_DEVIATIONS = 5.0  # from the median, in standard deviations by the median deviation
LARGEST_SHARE = 0.2  # of all steps
_NORMAL_QUANTILE = 1.96  # of a 95 % interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """The steps of a process, taken apart."""

    smooth: NDArray[np.float64]  # of each step, where pauses have what their neighbors suggest
    # of each pause, which may be several steps in a row, how much time it took beyond that; below 0
    # it took less
    extra: NDArray[np.float64]


def pauses(around: NDArray[np.float64]) -> Pauses:
    """Take pauses out of a series without trend; of more than a fifth of steps there are none."""
    from_median = np.abs(around - np.median(around))
    is_pause = from_median > MOST_DEVIATIONS * median_deviation(around)
    if not 0 < is_pause.mean() <= LARGEST_SHARE:
        return Pauses(smooth=around, extra=np.empty(0))
    time = np.arange(len(around))
    smooth = around.copy()
    smooth[is_pause] = np.interp(time[is_pause], time[~is_pause], around[~is_pause])
    begins = is_pause & ~np.concatenate([[False], is_pause[:-1]])
    extra = np.add.reduceat(around - smooth, np.flatnonzero(begins))  # 0 between pauses
    return Pauses(smooth=smooth, extra=extra)


def reaches(extra: NDArray[np.float64]) -> tuple[float, float]:
    """Return how much less, and how much more, pauses may take in all if a process runs on.

    They are the ends of a 95 % interval of a sum of rare events that are not alike (Fay & Feuer
    1997, doi:10.1002/(SICI)1097-0258(19970415)16:7<791::AID-SIM500>3.0.CO;2-#), as if one usual
    pause more had come instead of the longest, which grows with how many came, and with the
    quantile of t instead of the normal one, since few do not tell how long pauses are. Both
    are 0 where none came.
    """
    less, more = _reaches(extra[extra > 0])
    more_of_short, less_of_short = _reaches(-extra[extra < 0])
    return math.hypot(less, less_of_short), math.hypot(more, more_of_short)


def _reaches(extra: NDArray[np.float64]) -> tuple[float, float]:
    """Return those of pauses that all take longer."""
    num = len(extra)
    if num == 0:
        return 0.0, 0.0
    total, squares = float(extra.sum()), float(np.dot(extra, extra))
    quantile = math.exp(log_quantile(num + 2))
    low = _gamma(total, squares, -_NORMAL_QUANTILE)
    usual = squares / num  # of one, squared
    high = _gamma(total + math.sqrt(usual), squares + usual, quantile)
    return total - low, high - total


def _gamma(mean: float, variance: float, quantile: float) -> float:
    """Return the quantile of a gamma distribution at a normal one (Wilson & Hilferty 1931)."""
    ninth = variance / mean**2 / 9
    return mean * max(0.0, 1 - ninth + quantile * math.sqrt(ninth)) ** 3

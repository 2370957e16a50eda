"""The error of the mean step of one process, whose steps may resemble their neighbors and drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.median_deviation import median_deviation
from scalemark.stats.student import log_quantile
from scalemark.stats.two_speeds import two_speeds

FEWEST_STEPS = 8
FEWEST_CHANGES = 10  # between two speeds: how long each lasts is known badly from fewer
# of the logarithm of the speed: an interval from a third to three times the speed says nothing
LARGEST_REACH = 1.0
MOST_DEVIATIONS = 5.0  # from the median, in standard deviations by the median deviation
LARGEST_SHARE_OF_PAUSES = 0.2  # of all steps
MOST_ALIKE = 0.95  # correlation of neighbors: with more, so few steps tell next to nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The error of the mean of one process's steps, as a share of it."""

    variance: float
    freedom: float  # degrees, of Student's t


def interval_within(throughput: float, durations_s: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % CI of the speed of a process whose steps took so long.

    Returns None for fewer than 8 steps, or too few for how much they vary (`spread_within`).
    """
    spread = spread_within(durations_s)
    if spread is None:
        return None
    reach = math.exp(log_quantile(spread.freedom)) * math.sqrt(spread.variance)
    if reach > LARGEST_REACH:
        return None
    return throughput * math.exp(-reach), throughput * math.exp(reach)


def spread_within(durations_s: Sequence[float]) -> Spread | None:
    """Estimate by a circular block bootstrap of prewhitened steps; None where little is known.

    That is for fewer than 8 steps, and where two speeds took turns fewer than 10 times.

    What neighbors have in common (an autoregression without a trend, corrected for its bias as
    Kendall 1954) is taken out, blocks of n^(1/2) of the rest are drawn, and their spread is blown
    up again (Andrews & Monahan 1992), a little more since that correlation is itself an estimate.
    The variance of all such draws is known, so none is made. A pause hides what its neighbors have
    in common, so pauses are taken out before and added to the rest; of two speeds the speeds are
    what neighbors have in common. What is inside how often: `benchmarks/coverage.py`,
    docs/compare.md.
    """
    n = len(durations_s)
    if n < FEWEST_STEPS:
        return None
    relative = np.asarray(durations_s) / np.mean(durations_s) - 1
    speeds = two_speeds(relative)
    if speeds is None:
        around = without_trend(relative)
        smooth = _without_pauses(around)
        smooth -= smooth.mean()
        alike = correlation(smooth)
    elif speeds.num_changes < FEWEST_CHANGES:
        return None
    else:
        around, smooth = relative, speeds.levels - speeds.levels.mean()
        alike = _correlation_of_levels(smooth)
    # of the square of 1 / (1 - alike), to the second order of the error of `alike`
    too_small = 1 + 3 * (1 - alike**2) / n / (1 - alike) ** 2
    white = (smooth[1:] - alike * smooth[:-1]) * math.sqrt(too_small) / (1 - alike)
    white += (around - smooth)[1:]
    length = round(math.sqrt(n))
    variance = _variance_of_mean(white - white.mean(), length) * n / (n - 1.5 * length - 2)
    as_good_as = n / max((1 + alike) / (1 - alike), length)  # steps that resemble no other
    return Spread(variance=variance, freedom=max(as_good_as - 2, 1.0))


def correlation(around: NDArray[np.float64]) -> float:
    """Return the correlation of neighbors in a series without trend and mean, 0 or more.

    It is corrected for what the trend has taken away.
    """
    power = float(np.dot(around, around))
    if power == 0:
        return 0.0
    found = float(np.dot(around[1:], around[:-1])) / power
    return min(max(found + (2 + 4 * found) / len(around), 0.0), MOST_ALIKE)


def without_trend(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a straight line leaves."""
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = np.dot(values, time) / np.dot(time, time)
    left: NDArray[np.float64] = values - values.mean() - slope * time
    return left


def _correlation_of_levels(around: NDArray[np.float64]) -> float:
    """Return that of neighbors among the levels of two speeds, which may stay for long."""
    found = float(np.dot(around[1:], around[:-1]) / np.dot(around, around))
    return min(max(found + (1 + 3 * found) / len(around), 0.0), 1 - 1 / len(around))


def _without_pauses(around: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace what lies far from the median by what its neighbors suggest.

    Nothing is replaced where more than a fifth would be.
    """
    from_median = np.abs(around - np.median(around))
    is_pause = from_median > MOST_DEVIATIONS * median_deviation(around.tolist())
    smooth = around.copy()
    if 0 < is_pause.mean() <= LARGEST_SHARE_OF_PAUSES:
        time = np.arange(len(around))
        smooth[is_pause] = np.interp(time[is_pause], time[~is_pause], around[~is_pause])
    return smooth


def _variance_of_mean(values: NDArray[np.float64], length: int) -> float:
    """Return it over all ways to draw circular blocks of this length."""
    around = np.concatenate([values, values[: length - 1]])
    sums = np.convolve(around, np.ones(length), mode="valid")
    return float(np.var(sums / length)) * length / len(values)

"""The error of the mean step of one process, whose steps resemble their neighbors and drift.

Finds pauses among the steps, two speeds that took turns, as those of a clock, and the rest of a
warm-up: the first steps take longer, or shorter, and that fades.

```
  step time  |.
             | `.
             |   `--..__________    size x exp(-step / length), beside a straight line
```
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.ma  # np.median loads it: once here, and not in each forked process
from numpy.typing import NDArray

from scalemark.stats.welch import log_quantile

_OF_NORMAL = 1.4826  # median absolute deviation -> standard deviation of a normal distribution


def median_deviation(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return 1.4826 x the median absolute deviation, as tf_cnn_benchmarks defines jitter."""
    return _OF_NORMAL * float(np.median(np.abs(np.asarray(values) - np.median(values))))


# of fewer steps, those that resemble their neighbors for long are taken for two speeds too often
_FEWEST_OF_SPEEDS = 70
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


def two_speeds(values: NDArray[np.float64], around: NDArray[np.float64]) -> TwoSpeeds | None:
    """Find the run of steps that differs most from all others (Levin & Kline 1985,
    doi:10.1002/sim.4780040408); `around` is what a drift or a warm-up leaves of the values.

    Returns None for fewer than 70 steps, where it does not stand apart, or where that is no more.
    """
    if len(values) < _FEWEST_OF_SPEEDS:
        return None
    num_joined = math.ceil(len(values) / _MOST_VALUES)
    joined = _joined(values, num_joined)
    run = _run_that_differs_most(joined)
    is_in_run = _mask(len(joined), run)
    at_one, at_other = joined[is_in_run], joined[~is_in_run]
    left = float(np.sum((joined - np.where(is_in_run, at_one.mean(), at_other.mean())) ** 2))
    least = LEAST_APART * math.sqrt(left / (len(joined) - 2))
    # other runs would bring both means together, and pauses do not move the medians
    apart = min(abs(at_one.mean() - at_other.mean()), abs(np.median(at_one) - np.median(at_other)))
    if left >= float(np.sum(_joined(around, num_joined) ** 2)) or not apart > least:
        return None
    stop = len(values) if run.stop == len(joined) else run.stop * num_joined
    is_in_run = _mask(len(values), slice(run.start * num_joined, stop))
    speeds, mean = (values[is_in_run].mean(), values[~is_in_run].mean()), values.mean()
    return TwoSpeeds(
        rest=values - np.where(is_in_run, *speeds),
        slower=float(max(speeds) - mean),
        faster=float(mean - min(speeds)),
    )


def _run_that_differs_most(values: NDArray[np.float64]) -> slice:
    """Return where a run has another mean than the others with the least left."""
    num = len(values)
    begins, ends = _runs(num)
    lengths = ends - begins
    before = np.concatenate([[0.0], np.cumsum(values)])
    explained = (before[ends] - before[begins]) ** 2 * (1 / lengths + 1 / (num - lengths))
    best = int(np.argmax(explained))
    return slice(int(begins[best]), int(ends[best]))


def _mask(num: int, run: slice) -> NDArray[np.bool_]:
    """Return which of so many values are in the run."""
    is_in_run = np.zeros(num, dtype=bool)
    is_in_run[run] = True
    return is_in_run


def _joined(values: NDArray[np.float64], num_joined: int) -> NDArray[np.float64]:
    """Return means of so many neighbors, less the mean of all."""
    means = _neighbors(values, num_joined).mean(axis=1)
    joined: NDArray[np.float64] = means - means.mean()
    return joined


@lru_cache(maxsize=4)  # attempts of a trial have as many steps
def _runs(num: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return begin and end of all runs of so many values that leave enough at either speed."""
    fewest = math.ceil(LEAST_SHARE * num)
    begins, ends = np.triu_indices(num + 1, fewest)
    is_enough = ends - begins <= num - fewest
    return begins[is_enough], ends[is_enough]


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


_MOST_SERIES = 2000  # values; of more, means of neighbors: all spectra are in memory at once
_WHITE = 0.5  # prior chance that values do not resemble their neighbors at all
_NUM_TIMES = 28  # of relaxation, equally likely: from half a step to half the series
_SHORTEST = 0.5  # steps
# share of the variance that is white noise beside the slow one, equally likely
_WHITE_SHARES = (0.0, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """The error of a mean."""

    variance: float
    freedom: float  # degrees, of Student's t


@dataclass(frozen=True, slots=True, kw_only=True)
class _Models:
    """Models of a series of variance 1: one of white noise, the others of both noises."""

    weights: NDArray[np.float64]  # (models, frequencies), 1 / power
    log_prior: NDArray[np.float64]  # (models,)
    log_constant: NDArray[np.float64]  # (models,), of the likelihood
    at_zero: NDArray[np.float64]  # (models,), power at frequency 0: n x the variance of the mean


def error_of_mean(around: NDArray[np.float64]) -> Error:
    """Estimate the error of the mean from a series of 8 values or more without trend and mean.

    The series is taken for the sum of white noise and of an autoregression, such as a clock with
    two rates has, too. Whittle's likelihood (1953) weighs how long the autoregression remembers,
    and how much of the variance it is; all models count, by their weight, so the freedom is low
    where the series does not tell them apart.
    """
    power, num = _power(around)
    if not power.any():
        return Error(variance=0.0, freedom=2.0 * len(power))
    models = _models(num)
    scales, log_weights = _weighed(models, power)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    # a t has the first two moments of the reciprocal variance, whose own is a gamma for each model
    precisions = num / (models.at_zero * scales)
    mean = float(np.dot(weights, precisions))
    square = float(np.dot(weights, (precisions / mean) ** 2)) * (1 + 1 / len(power))
    return Error(variance=1 / mean, freedom=max(2 / (square - 1), 1.0))


def log_likelihood(around: NDArray[np.float64]) -> float:
    """Return that of a series by all models, but for a constant; infinite where nothing varies."""
    power, num = _power(around)
    if not power.any():
        return math.inf
    _, log_weights = _weighed(_models(num), power)
    return float(np.logaddexp.reduce(log_weights))


def _power(around: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return that of each frequency, and of how many values it is."""
    joined = _neighbors(around, math.ceil(len(around) / _MOST_SERIES)).mean(axis=1)
    num = len(joined)
    frequencies = np.arange(1, (num - 1) // 2 + 1)
    power = np.abs(np.fft.rfft(joined)[frequencies]) ** 2 / num
    power /= 1 - 3 / (np.pi * frequencies) ** 2  # a straight line has taken the rest away
    return power, num


def _weighed(
    models: _Models, power: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the variance of the series by each model, and the logarithm of its weight."""
    scales = models.weights @ power / len(power)
    return scales, models.log_prior + models.log_constant - len(power) * np.log(scales)


@lru_cache(maxsize=4)  # attempts of a trial have as many steps
def _models(num: int) -> _Models:
    """Return those of a series of so many values."""
    cosines = np.cos(2 * np.pi * np.arange(1, (num - 1) // 2 + 1) / num)
    powers, at_zero, prior = [np.ones_like(cosines)], [1.0], [_WHITE]
    for time in np.geomspace(_SHORTEST, num / 2, _NUM_TIMES):
        alike = math.exp(-1 / time)  # correlation of neighbors
        slow = (1 - alike**2) / (1 - 2 * alike * cosines + alike**2)
        for white in _WHITE_SHARES:
            powers.append(white + (1 - white) * slow)
            at_zero.append(white + (1 - white) * (1 + alike) / (1 - alike))
            prior.append((1 - _WHITE) / (_NUM_TIMES * len(_WHITE_SHARES)))
    return _Models(
        weights=1 / np.array(powers),
        log_prior=np.log(prior),
        log_constant=-np.log(powers).sum(axis=1),
        at_zero=np.array(at_zero),
    )


def without_trend(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a straight line leaves."""
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = np.dot(values, time) / np.dot(time, time)
    left: NDArray[np.float64] = values - values.mean() - slope * time
    return left


FEWEST_WITH_WARM_UP = 70  # from which it is distinguished, as of two speeds
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


def rough_warm_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Guess what it takes of each step, whatever pauses there are; 0 for fewer than 70 steps."""
    num = len(values)
    if num < FEWEST_WITH_WARM_UP:
        return np.zeros(num)
    num_joined = max(_FEWEST_NEIGHBORS, math.ceil(num / _MOST_MEDIANS))
    size, length = _best(np.median(_neighbors(values, num_joined), axis=1), num, num_joined)
    return size * _of_length(num, length)


def warm_up(smooth: NDArray[np.float64]) -> WarmUp | None:
    """Find one in steps without pauses; None for fewer than 70, or where they are about as likely
    without, by models of noise that remembers (`slow_noise`).
    """
    num = len(smooth)
    if num < FEWEST_WITH_WARM_UP:
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
    squares = (shapes**2).sum(axis=1)
    products = shapes @ without_trend(values)
    place = int(np.argmax(products**2 / squares))
    return float(products[place] / squares[place]), float(_LENGTHS[place])


def _inflation(shape: NDArray[np.float64], length: float) -> float:
    """Return it by least squares of a line, the size, and the length near this one."""
    num = len(shape)
    columns = np.array([shape, shape * np.arange(num) / (length * num)])
    means = columns.mean(axis=1)
    around = np.array([without_trend(column) for column in columns])
    return 1 + num * float(means @ np.linalg.solve(around @ around.T, means))


@lru_cache(maxsize=8)  # attempts of a trial have as many steps
def _shapes(num: int, num_joined: int) -> NDArray[np.float64]:
    """Return warm-ups of size 1, one of each length, less a straight line: (lengths, values), of so
    many neighbors each.
    """
    rows = []
    for length in _LENGTHS:
        joined = _neighbors(_of_length(num, length), num_joined).mean(axis=1)
        rows.append(without_trend(joined))
    return np.array(rows)


def _of_length(num: int, length: float) -> NDArray[np.float64]:
    """Return the warm-up of size 1 that so many steps have."""
    shape: NDArray[np.float64] = np.exp(-(np.arange(num) + 0.5) / (length * num))
    return shape


def _neighbors(values: NDArray[np.float64], num_joined: int) -> NDArray[np.float64]:
    """Return them in rows of so many."""
    num = len(values) // num_joined
    return values[: num * num_joined].reshape(num, num_joined)


FEWEST_STEPS = 8
# of the logarithm of the speed: an interval from a third to three times the speed says nothing
LARGEST_REACH = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpread:
    """The error of the logarithm of a process's speed."""

    variance: float  # of steps at one speed, without pauses
    freedom: float  # degrees, of Student's t
    # so much slower and faster may it be with 95 % because pauses are rare, and so much if it kept
    # one of two speeds: logarithms, 0 or more
    slower: float = 0.0
    faster: float = 0.0
    warmer: float = 0.0  # logarithm: so much faster is it after its warm-up; below 0 slower
    lost: float | None = None  # share of its time that pauses took; None where none was seen


def interval_within(throughput: float, durations_s: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % CI of the speed of a process whose steps took so long.

    Returns None for fewer than 8 steps, or too few for how much they vary (`LARGEST_REACH`).
    """
    spread = spread_within(durations_s)
    if spread is None:
        return None
    # from the speed after a warm-up down and up; the interval reaches the speed itself, too
    reach = math.exp(log_quantile(spread.freedom)) * math.sqrt(spread.variance)
    low = spread.warmer - math.hypot(reach, spread.slower)
    high = spread.warmer + math.hypot(reach, spread.faster)
    if not max(-low, high) <= LARGEST_REACH:  # nan where steps took no time
        return None
    return throughput * math.exp(min(low, 0.0)), throughput * math.exp(max(high, 0.0))


def spread_within(durations_s: Sequence[float]) -> ProcessSpread | None:
    """Estimate it from the steps of one process; None for fewer than 8 of them.

    A straight line is no error: the drift of this process is part of its speed. A warm-up is not
    (`warm_up`), and may take as much again, since how it fades is unknown. Two speeds that took
    turns once or twice (`two_speeds`) leave both possible. Pauses are judged apart (`pauses`),
    since few of them tell little of how often they come; what is left may resemble its neighbors
    (`slow_noise`). All reaches add up as those of independent errors do (Zou & Donner 2008,
    doi:10.1002/sim.3095). How often they hold the truth: benchmarks/evidence.md.
    """
    num = len(durations_s)
    if num < FEWEST_STEPS:
        return None
    durations = np.asarray(durations_s, dtype=np.float64)
    paused, speeds, fading = _taken_apart(durations / durations.mean())
    error = error_of_mean(without_trend(paused.smooth))
    extra = paused.extra / num
    less, more = reaches(extra)
    slower_by_pauses, faster_by_pauses = _as_logarithms(more, less)
    slower = faster = 0.0
    if speeds is not None:
        slower, faster = _as_logarithms(speeds.slower, speeds.faster)
    warmer, by_shape, inflation = 0.0, 0.0, 1.0
    if fading is not None:
        _, warmer = _as_logarithms(0.0, float(fading.extra.mean()))
        by_shape, inflation = abs(warmer), fading.inflation
    return ProcessSpread(
        variance=error.variance * inflation,
        freedom=error.freedom,
        slower=math.hypot(slower, slower_by_pauses, by_shape),
        faster=math.hypot(faster, faster_by_pauses, by_shape),
        warmer=warmer,
        lost=max(float(extra.sum()), 0.0) if len(extra) else None,
    )


def _taken_apart(
    values: NDArray[np.float64],
) -> tuple[Pauses, TwoSpeeds | None, WarmUp | None]:
    """Take pauses out of steps; two speeds, where a line, with a warm-up or without, leaves more;
    else a warm-up. It is never beside two speeds.
    """
    line, rough = without_trend(values), rough_warm_up(values)
    warmed = without_trend(values - rough)
    around = line
    if np.dot(warmed, warmed) < np.dot(line, line):
        around = warmed
    speeds = two_speeds(values, around)
    if speeds is not None:
        return pauses(without_trend(speeds.rest)), speeds, None
    paused = pauses(warmed)
    smooth = paused.smooth + rough
    fading = warm_up(smooth)
    if fading is None:
        return pauses(line), None, None
    return replace(paused, smooth=smooth - fading.extra), None, fading


def _as_logarithms(more: float, less: float) -> tuple[float, float]:
    """Return how much slower and faster a process is whose steps take so much more or less."""
    return math.log1p(more), -math.log1p(-min(less, 1 - 1e-9))

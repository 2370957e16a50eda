"""Estimates how far the mean time of each replica may be off by chance.

```
  spectrum of the rounds, which may resemble their neighbors ─┐ joined, where that is
  how far the means of the rest are from each other ──────────┤ no more than chance
  how far the repeats of each replica are from each other ────┘ explains
```
Places that differ more are no error; repeats that do tell alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.slow_noise import Error, error_of_mean
from scalemark.stats.trend import without_trend
from scalemark.stats.welch import upper_quantile

_PLACES_DIFFER = 0.02  # p of an F test: so do the means of the rest, which is no error
_VARIES_MORE = 0.001  # p of an F test: one replica over repeats
# variance of 8 normal values by that of those left without the largest
_TRIMMED = 1.4
_OF_MEDIAN = math.pi / 2  # variance of a median by that of a mean, of normal values

Rounds = NDArray[np.float64]  # (rounds, replicas), logarithms less the median of the others


def reaches(processes: Sequence[Rounds], rest: NDArray[np.float64], level: float) -> list[float]:
    """Return half the interval of each replica, which its true mean leaves upwards with `level`.

    `rest` are the mean logarithms of the replicas among which none stands apart.
    """
    num_processes, num_replicas = len(processes), processes[0].shape[1]
    around = [np.array([without_trend(one) for one in rounds.T]).T for rounds in processes]
    error = _with_rest(_mean_error(around), rest, num_replicas)
    varying = _at_least_usual(np.concatenate(around).var(axis=0))
    found = upper_quantile(level, error.freedom) * np.sqrt(error.variance * varying)
    if num_processes > 1:
        means = np.array([rounds.mean(axis=0) for rounds in processes])
        found = _over_repeats(means, error, level)
    as_list: list[float] = found.tolist()
    return as_list


def _mean_error(around: Sequence[Rounds]) -> Error:
    """Return that of the mean of all processes, by the spectrum of their rounds.

    All replicas have one spectrum; half of them count, since the rest were chosen for their means.
    """
    num_series = max(1.0, (around[0].shape[1] - 1) / 2)
    errors = [error_of_mean(one, num_series=num_series) for one in around]
    return Error(
        variance=sum(one.variance for one in errors) / len(errors) ** 2,
        freedom=sum(one.freedom for one in errors),
    )


def _with_rest(error: Error, rest: NDArray[np.float64], num_replicas: int) -> Error:
    """Join what the rest tell of the error: where rounds remember for long, that is most of it."""
    if len(rest) < 2:
        return error
    variance = _TRIMMED * float(rest.var(ddof=1)) * (1 + _OF_MEDIAN / (num_replicas - 1))
    of_rest = Error(variance=variance, freedom=len(rest) - 1)
    return error if _is_more(of_rest, error) else _joined(error, of_rest)


def _over_repeats(means: NDArray[np.float64], error: Error, level: float) -> NDArray[np.float64]:
    """Return reaches by how far the means of each process, (processes, replicas), are from each
    other: of all replicas together, with the error within processes where that explains it, or of
    one alone that varies by more than chance explains.
    """
    freedom, num_others = len(means) - 1, means.shape[1] - 1
    own = means.var(axis=0, ddof=1) / len(means)
    over = Error(variance=float(own.mean()), freedom=freedom * num_others)
    of_all = over if _is_more(over, error) else _joined(error, over)
    usual = upper_quantile(level, of_all.freedom) * math.sqrt(of_all.variance)
    found = np.full(len(own), usual)
    for place, variance in enumerate(own.tolist()):
        others = Error(variance=(own.sum() - variance) / num_others, freedom=over.freedom)
        if _is_more(Error(variance=variance, freedom=freedom), others, _VARIES_MORE):
            found[place] = max(usual, upper_quantile(level, freedom) * math.sqrt(variance))
    return found


def _is_more(one: Error, other: Error, level: float = _PLACES_DIFFER) -> bool:
    """Return whether a variance is larger by more than chance explains (F test)."""
    from scipy.special import fdtrc  # here, because its import takes longer than most commands do

    if one.variance == 0 or other.variance == 0:
        return one.variance > 0
    return float(fdtrc(one.freedom, other.freedom, one.variance / other.variance)) < level


def _joined(one: Error, other: Error) -> Error:
    freedom = one.freedom + other.freedom
    variance = (one.freedom * one.variance + other.freedom * other.variance) / freedom
    return Error(variance=variance, freedom=freedom)


def _at_least_usual(squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many times as much as the usual one each varies; 1 where it varies less."""
    usual = squares.mean()
    return np.maximum(squares / usual, 1.0) if usual > 0 else np.ones_like(squares)

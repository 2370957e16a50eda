"""Estimates how far the mean time of each replica may be off by chance.

```
  rounds of each ──► spectrum: they resemble their neighbors ──┐
  how far the means of the rest are from each other, where ────┴► error of a process ──┐
    that is no more than chance explains                                               ├► larger
  how far the repeats of each replica are from each other ─────────────────────────────┘
```
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.slow_noise import Error, error_of_mean
from scalemark.stats.student import upper_quantile
from scalemark.stats.within_process import without_trend

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
        found = np.maximum(found, _over_repeats(means, level))
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
    from scipy.special import fdtrc  # here, because its import takes longer than most commands do

    freedom = len(rest) - 1
    if freedom < 1:
        return error
    variance = _TRIMMED * float(rest.var(ddof=1)) * (1 + _OF_MEDIAN / (num_replicas - 1))
    is_more = variance > 0 and (
        error.variance == 0
        or fdtrc(freedom, error.freedom, variance / error.variance) < _PLACES_DIFFER
    )
    if is_more:
        return error
    total = error.freedom + freedom
    joined = (error.freedom * error.variance + freedom * variance) / total
    return Error(variance=joined, freedom=total)


def _over_repeats(means: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """Return reaches by how far the means of each process, (processes, replicas), are from each
    other: of all replicas together, or of one alone that varies by more than chance explains.
    """
    from scipy.special import fdtrc  # here, as above

    freedom, num_others = len(means) - 1, means.shape[1] - 1
    own = means.var(axis=0, ddof=1) / len(means)
    if not own.any():
        return np.zeros_like(own)
    others = (own.sum() - own) / num_others
    chances = fdtrc(freedom, freedom * num_others, own / np.maximum(others, 1e-300))
    of_all = upper_quantile(level, freedom * num_others) * math.sqrt(own.mean())
    of_own = upper_quantile(level, freedom) * np.sqrt(own)
    found: NDArray[np.float64] = np.where(chances < _VARIES_MORE, of_own, of_all)
    return found


def _at_least_usual(squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many times as much as the usual one each varies; 1 where it varies less."""
    usual = squares.mean()
    return np.maximum(squares / usual, 1.0) if usual > 0 else np.ones_like(squares)

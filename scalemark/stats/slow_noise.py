"""The variance of the mean of a series whose values resemble their neighbors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_MOST_VALUES = 2000  # of more, means of neighbors: the spectra of all models are in memory
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
    log_constant: NDArray[np.float64]  # (models,), of the likelihood of one series
    at_zero: NDArray[np.float64]  # (models,), power at frequency 0: n x the variance of the mean


def error_of_mean(around: NDArray[np.float64], *, num_series: float = 1.0) -> Error:
    """Estimate it from a series of 8 values or more without trend and mean.

    The series is taken for the sum of white noise and of an autoregression, such as a clock with
    two rates has, too. Whittle's likelihood (1953) weighs how long the autoregression remembers,
    and how much of the variance it is; all models count, by their weight, so the freedom is low
    where the series does not tell them apart. Several series of one spectrum, (values, series),
    tell more: as much as `num_series` that are independent. The error is that of one.
    """
    power, num = _power(around)
    models = _models(num)
    num_powers = num_series * len(power)
    if not power.any():
        return Error(variance=0.0, freedom=2.0 * num_powers)
    scales = _scales(models, power)
    log_weights = _log_weights(models, scales, len(power), num_series)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    # a t has the first two moments of the reciprocal variance, whose own is a gamma for each model
    precisions = num / (models.at_zero * scales)
    mean = float(np.dot(weights, precisions))
    square = float(np.dot(weights, (precisions / mean) ** 2)) * (1 + 1 / num_powers)
    return Error(variance=1 / mean, freedom=max(2 / (square - 1), 1.0))


def log_likelihood(around: NDArray[np.float64]) -> float:
    """Return that of a series by all models, but for a constant; infinite where nothing varies."""
    power, num = _power(around)
    if not power.any():
        return math.inf
    models = _models(num)
    log_weights = _log_weights(models, _scales(models, power), len(power), 1.0)
    return float(np.logaddexp.reduce(log_weights))


def _power(around: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return that of each frequency, the mean of all series, and of how many values it is."""
    num_joined = math.ceil(len(around) / _MOST_VALUES)
    num = len(around) // num_joined
    joined = around[: num * num_joined].reshape(num, num_joined, -1).mean(axis=1)
    frequencies = np.arange(1, (num - 1) // 2 + 1)
    power = (np.abs(np.fft.rfft(joined, axis=0)[frequencies]) ** 2).mean(axis=1) / num
    power /= 1 - 3 / (np.pi * frequencies) ** 2  # a straight line has taken the rest away
    return power, num


def _scales(models: _Models, power: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variance of the series by each model."""
    scales: NDArray[np.float64] = models.weights @ power / len(power)
    return scales


def _log_weights(
    models: _Models, scales: NDArray[np.float64], num_frequencies: int, num_series: float
) -> NDArray[np.float64]:
    constant = models.log_prior + num_series * models.log_constant
    log_weights: NDArray[np.float64] = constant - num_series * num_frequencies * np.log(scales)
    return log_weights


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

"""Intervals of the speed of one process as books have them, to compare ours with; each takes a
straight line out first.
"""

from __future__ import annotations

import math

import numpy as np

from analysis.statistics.sample import Sample
from scalemark.stats.trend import without_trend
from scalemark.stats.welch import upper_quantile

_NUM_COSINES = 8
_FIXED_B_QUANTILE = 4.771  # 97.5 % where the bandwidth is the whole series


def batch_means(one: Sample) -> tuple[float, float]:
    """Means of n^(1/2) batches (Law & Carson 1979)."""
    around = _around(one)
    num = round(math.sqrt(len(around)))
    length = len(around) // num
    means = around[: num * length].reshape(num, length).mean(axis=1)
    return _interval(one, num - 1, float(means.var(ddof=1)) / num)


def cosines(one: Sample) -> tuple[float, float]:
    """Eight cosines of long waves (Mueller 2007; Lazarus, Lewis, Stock & Watson 2018)."""
    around = _around(one)
    n = len(around)
    time = (np.arange(n) + 0.5) / n
    waves = np.cos(np.pi * np.arange(1, _NUM_COSINES + 1)[:, None] * time) * math.sqrt(2 / n)
    return _interval(one, _NUM_COSINES, float(np.mean((waves @ around) ** 2)) / n)


def fixed_b(one: Sample) -> tuple[float, float]:
    """Bartlett's kernel over the whole series (Kiefer & Vogelsang 2002)."""
    sums = np.cumsum(_around(one))
    n = len(sums)
    return _within(one, _FIXED_B_QUANTILE * math.sqrt(2 * float(np.dot(sums, sums)) / n**3))


def _around(one: Sample) -> np.ndarray:
    durations = np.asarray(one.durations_s[0])
    return without_trend(durations / durations.mean())


def _interval(one: Sample, freedom: int, variance: float) -> tuple[float, float]:
    return _within(one, upper_quantile(0.025, freedom) * math.sqrt(variance))


def _within(one: Sample, reach: float) -> tuple[float, float]:
    return one.throughput[0] * math.exp(-reach), one.throughput[0] * math.exp(reach)

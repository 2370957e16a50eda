"""Intervals of means and ratios over two or more processes, by Student's and Welch's t on
logarithms, and the one rule that all who compare two results use.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

from scalemark.stats.student import LEVEL, log_quantile


def typical(measured: Sequence[float]) -> float:
    """Return the geometric mean of values above 0, the center of their interval and of ratios."""
    if len(measured) == 1:
        return measured[0]  # without the rounding of a logarithm
    return statistics.geometric_mean(measured)


def interval(measured: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % CI of the geometric mean of two or more processes' values above 0."""
    mean, variance = _of_logarithms(tuple(measured))
    reach = reach_of_sum([(variance / len(measured), len(measured) - 1)])
    return _power(mean - reach), _power(mean + reach)


def ratio_interval(
    of_a: Sequence[float], of_b: Sequence[float], level: float = LEVEL
) -> tuple[float, float]:
    """Return the interval of A / B, of two or more values above 0 each; `level` 0.05 is 95 %.

    Welch's t (1947) with two corrections, since so few values say little of their own spread. With
    sides of unlike size his quantile is too small where the small one spreads by chance too little:
    it leans towards that of Cochran and Cox (1950), the more the less alike the sizes are. With
    sides of like size it is a little too wide: each variance is drawn towards what both have in
    common, by an eighth of a degree of freedom. Where both spread alike, 95 to 97.5 % of intervals
    hold the truth then; where one spreads up to 10 times as much, 92.5 to 98 %
    (`benchmarks/coverage.py`, docs/compare.md).
    """
    mean_a, variance_a = _of_logarithms(tuple(of_a))
    mean_b, variance_b = _of_logarithms(tuple(of_b))
    reach = reach_of_ratio((variance_a, variance_b), (len(of_a), len(of_b)), level)
    return _power(mean_a - mean_b - reach), _power(mean_a - mean_b + reach)


def reach_of_ratio(
    variances: tuple[float, float], nums: tuple[int, int], level: float = LEVEL
) -> float:
    """Return half of that interval, of logarithms, for two or more values of each side."""
    free_a, free_b = nums[0] - 1, nums[1] - 1
    alike = min(free_a, free_b) / max(free_a, free_b)
    common = (free_a * variances[0] + free_b * variances[1]) / (free_a + free_b)
    pull = alike**2 / 8
    errors = []  # squared, of the means
    for free, variance in ((free_a, variances[0]), (free_b, variances[1])):
        drawn = (free * variance + pull * common) / (free + pull)
        errors.append((drawn / (free + 1), free))
    return reach_of_sum(errors, level, lean=(1 - alike) ** 2)


def reach_of_sum(
    errors: Sequence[tuple[float, float]], level: float = LEVEL, lean: float = 0.0
) -> float:
    """Return half the interval of a sum of independent numbers, by Welch and Satterthwaite.

    Each has its squared error and the degrees of freedom of that. `lean` 1 takes the quantile of
    Cochran and Cox, which is never too small.
    """
    total = math.fsum(error for error, _ in errors)
    if total == 0:
        return 0.0
    weighted = math.fsum(error * math.exp(log_quantile(free, level)) for error, free in errors)
    usual, careful = log_quantile(freedom_of_sum(errors), level), math.log(weighted / total)
    return math.exp((1 - lean) * usual + lean * careful) * math.sqrt(total)


def freedom_of_sum(errors: Sequence[tuple[float, float]]) -> float:
    """Return the degrees of freedom of the error of such a sum, which is not 0."""
    total = math.fsum(error for error, _ in errors)
    return max(1.0, total**2 / math.fsum(error**2 / free for error, free in errors))


def known_ratio_interval(
    of_a: Sequence[float], of_b: Sequence[float]
) -> tuple[float, float] | tuple[None, None]:
    """Return `ratio_interval`; None where a side is a single run: the next one may differ."""
    return ratio_interval(of_a, of_b) if min(len(of_a), len(of_b)) > 1 else (None, None)


class Relation(StrEnum):
    """The relation of a first side to a second."""

    MORE = "more"
    LESS = "less"
    TIE = "tie"  # the 95 % CI of the ratio contains 1; of published figures, 2 % or less apart
    UNKNOWN = "unknown"  # one of the two is a single run


def relation(of_a: Sequence[float], of_b: Sequence[float]) -> Relation:
    """Compare two results by the values of their processes."""
    return relation_by(*known_ratio_interval(of_a, of_b))


def relation_by(low: float | None, high: float | None) -> Relation:
    """Compare by the interval over processes of A / B, None where a side is a single run."""
    if low is None or high is None:
        return Relation.UNKNOWN
    if low > 1:
        return Relation.MORE
    return Relation.LESS if high < 1 else Relation.TIE


def error_of_log_mean(measured: Sequence[float]) -> float:
    """Return the relative error of the geometric mean of two or more values above 0."""
    return math.sqrt(log_variance(measured) / len(measured))


def log_variance(measured: Sequence[float]) -> float:
    """Return the variance of the logarithms of two or more values above 0."""
    return _of_logarithms(tuple(measured))[1]


def _power(log: float) -> float:
    """Return e to this power; infinity where no float is as large."""
    try:
        return math.exp(log)
    except OverflowError:
        return math.inf


@lru_cache(maxsize=50_000)  # in a table the fastest is compared with all others
def _of_logarithms(measured: tuple[float, ...]) -> tuple[float, float]:
    """Return mean and variance.

    `statistics` would work with fractions, and take a second for thousands of tables' cells.
    """
    logs = [math.log(value) for value in measured]
    mean = math.fsum(logs) / len(logs)
    return mean, math.fsum((log - mean) ** 2 for log in logs) / (len(logs) - 1)

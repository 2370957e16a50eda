"""Estimates how many more repeats would distinguish two sides."""

from __future__ import annotations

import math

from analysis.statistics.sample import Sample
from analysis.statistics.studentized_range import pair_quantile
from scalemark.stats.welch import LEVEL, freedom_of_sum, log_variance, reach_of_ratio

POWER = 0.8
MOST_WORTH_IT = 50  # more repeats of each side


def more_repeats(a: Sample, b: Sample, level: float = LEVEL) -> int | None:
    """Return how many more repeats of each side show a difference as large as the one seen in 80 %
    of cases, for the interval of `level` that the two are judged by.

    None: more than are worth it, or unknown, as the spread of a single run is.
    """
    nums = a.num_processes, b.num_processes
    difference = abs(math.log(a.typical / b.typical))
    if min(nums) < 2 or difference < 1e-9:
        return None
    variances = log_variance(a.throughput), log_variance(b.throughput)
    if not any(variances):
        return 0
    for more in range(MOST_WORTH_IT + 1):
        if power((nums[0] + more, nums[1] + more), difference, variances, level) >= POWER:
            return more
    return None


def power(
    nums: tuple[int, int], difference: float, variances: tuple[float, float], level: float = LEVEL
) -> float:
    """Return the chance that Welch's interval finds a difference of logarithms.

    The square of a noncentral t is a noncentral F, which scipy knows also of differences that
    nobody would overlook.
    """
    from scipy.special import ncfdtr

    errors = [(variance / num, num - 1) for variance, num in zip(variances, nums, strict=True)]
    squared = math.fsum(error for error, _ in errors)
    edge, away = reach_of_ratio(variances, nums, level) ** 2 / squared, difference**2 / squared
    return float(1 - ncfdtr(1, freedom_of_sum(errors), away, edge))


def repeats_to_tell(
    nums: tuple[int, int], difference: float, variance: float, freedom: int, num_compared: int
) -> int | None:
    """Return how many more of each side are needed, where all processes have this variance.

    It is known by `freedom` degrees, and by two more with one more repeat of each. The two are
    judged as the first and the last of `num_compared`.
    """
    if variance == 0:
        return 0
    from scipy.special import ncfdtr

    for more in range(MOST_WORTH_IT + 1):
        squared = variance * (1 / (nums[0] + more) + 1 / (nums[1] + more))
        edge = pair_quantile(num_compared, freedom + 2 * more) ** 2
        if 1 - ncfdtr(1, freedom + 2 * more, difference**2 / squared, edge) >= POWER:
            return more
    return None

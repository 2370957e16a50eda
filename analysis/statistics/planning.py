"""Estimates how many more repeats would distinguish two sides."""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.statistics.sample import Sample
from analysis.statistics.studentized_range import pair_quantile
from scalemark.stats.welch import LEVEL, freedom_of_sum, log_variance, reach_of_ratio
from scalemark.text.wording import counted

POWER = 0.8
MOST_WORTH_IT = 50  # more repeats of each side
_UNLUCKY = 0.2  # chance that the spread is even larger than the one that `at_worst` is of


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatsPlan:
    """Repeats that show a difference as large as the one seen in 80 % of cases."""

    more: int | None  # repeats of each side; None: more than are worth it, or unknown
    # if processes spread more than they seem to, as they do in one case of 5; None as above
    at_worst: int | None
    words: str  # one clause


def plan(a: Sample, b: Sample, level: float = LEVEL) -> RepeatsPlan:
    """Plan from the spread over processes, for the interval of `level` that the two are judged by.

    The spread of a single run is unknown.
    """
    nums = a.num_processes, b.num_processes
    if min(nums) < 2:
        words = "run 2 more of each (sweep.repeats=3) to see how many repeats are needed"
        return RepeatsPlan(more=None, at_worst=None, words=words)
    difference = abs(math.log(a.typical / b.typical))
    if difference < 1e-9:
        words = "both are the same: no number of repeats would show a difference"
        return RepeatsPlan(more=None, at_worst=None, words=words)
    variances = log_variance(a.throughput), log_variance(b.throughput)
    more = _more(nums, difference, variances, level)
    unlucky = _unlucky_factor(sum(nums) - 2)
    at_worst = _more(nums, difference, (variances[0] * unlucky, variances[1] * unlucky), level)
    return RepeatsPlan(
        more=more, at_worst=at_worst, words=_words(more, at_worst, math.expm1(difference))
    )


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


def _more(
    nums: tuple[int, int], difference: float, variances: tuple[float, float], level: float
) -> int | None:
    if not any(variances):
        return 0
    for more in range(MOST_WORTH_IT + 1):
        if power((nums[0] + more, nums[1] + more), difference, variances, level) >= POWER:
            return more
    return None


def _unlucky_factor(freedom: int) -> float:
    from scipy.special import chdtri

    return freedom / float(chdtri(freedom, 1 - _UNLUCKY))


def _words(more: int | None, at_worst: int | None, difference: float) -> str:
    what = f"a difference of {difference:.1%}"
    if difference >= 1:
        what = f"a factor of {1 + difference:.2g}"
    if more is None:
        return f"more than {MOST_WORTH_IT} more repeats of each would be needed to show {what}"
    if more == 0:
        return f"the repeats there are show {what} in {POWER:.0%} of cases"
    worst = ""
    if at_worst is None:
        worst = f" (more than {MOST_WORTH_IT} if they spread more than seen)"
    elif at_worst > more:
        worst = f" ({at_worst} if they spread more than seen)"
    return f"{counted(more, 'more repeat')} of each{worst} would show {what}"

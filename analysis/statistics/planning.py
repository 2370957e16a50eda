"""How many more repeats would tell two sides apart, and how little that is worth to know with
few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.statistics.sample import Sample
from scalemark.stats.student import LEVEL, upper_quantile
from scalemark.stats.welch import freedom_of_sum, log_variance, reach_of_ratio

POWER = 0.8
MOST_WORTH_IT = 50  # more repeats of each side
_UNLUCKY = 0.2  # chance that the spread is even larger than the one that `at_worst` is of


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """For a difference as large as the one that was seen, to be found in 80 % of cases."""

    more: int | None  # repeats of each side; None: more than are worth it, or nobody knows
    # if processes spread more than they seem to, as they do in one case of 5; None: more than are
    # worth it
    at_worst: int | None
    words: str  # one clause


def plan(a: Sample, b: Sample, level: float = LEVEL) -> Plan:
    """From the spread over processes, for the interval of `level` that the two are judged by; of
    one process nobody can tell.
    """
    if min(a.num_processes, b.num_processes) < 2:
        need = "run 2 more of each, and ask again"
        return Plan(
            more=None,
            at_worst=None,
            words=f"how many repeats would tell, one process cannot say: {need} (sweep.repeats=3)",
        )
    difference = abs(math.log(a.typical / b.typical))
    if difference < 1e-9:
        return Plan(
            more=None,
            at_worst=None,
            words="both are the same: no number of repeats would tell them apart",
        )
    nums = a.num_processes, b.num_processes
    variances = log_variance(a.throughput), log_variance(b.throughput)
    freedom = sum(nums) - 2
    unlucky = freedom / _low_quantile(freedom)
    more = _more(nums, difference, variances, level)
    at_worst = _more(nums, difference, (variances[0] * unlucky, variances[1] * unlucky), level)
    return Plan(more=more, at_worst=at_worst, words=_words(more, at_worst, math.expm1(difference)))


def power(
    nums: tuple[int, int], difference: float, variances: tuple[float, float], level: float = LEVEL
) -> float:
    """Chance that a difference of logarithms is found by the interval of Welch, where processes of
    each side spread so.

    The square of a noncentral t is a noncentral F, which scipy knows also of differences that
    nobody would overlook.
    """
    from scipy.special import ncfdtr

    errors = [(variance / num, num - 1) for variance, num in zip(variances, nums, strict=True)]
    squared = math.fsum(error for error, _ in errors)
    edge, away = reach_of_ratio(variances, nums, level) ** 2 / squared, difference**2 / squared
    return float(1 - ncfdtr(1, freedom_of_sum(errors), away, edge))


def repeats_to_tell(
    nums: tuple[int, int], difference: float, variance: float, freedom: int, level: float
) -> int | None:
    """More of each side, where all processes have this variance, known by `freedom` degrees, and
    two more by one more of each.
    """
    if variance == 0:
        return 0
    from scipy.special import ncfdtr

    for more in range(MOST_WORTH_IT + 1):
        squared = variance * (1 / (nums[0] + more) + 1 / (nums[1] + more))
        edge = upper_quantile(level / 2, freedom + 2 * more) ** 2
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


def _low_quantile(freedom: int) -> float:
    from scipy.special import chdtri

    return float(chdtri(freedom, 1 - _UNLUCKY))


def _words(more: int | None, at_worst: int | None, difference: float) -> str:
    told = (
        f"a factor of {1 + difference:.2g}"
        if difference >= 1
        else f"a difference of {difference:.1%}"
    )
    if more is None:
        return (
            f"no number of repeats that is worth it (up to {MOST_WORTH_IT} more of each) would "
            f"show {told}, if it is there"
        )
    if more == 0:
        return f"so many repeats as there are show {told} in {POWER:.0%} of cases"
    worst = f"more than {MOST_WORTH_IT}" if at_worst is None else f"{at_worst}"
    unsure = (
        f", or {worst} if they spread more than so few can tell,"
        if at_worst is None or at_worst > more
        else ""
    )
    s = "" if more == 1 else "s"
    return f"{more} more repeat{s} of each{unsure} would show {told}, if it is there"

"""How many more repeats would tell two sides apart, and how little that is worth to know with few."""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.statistics.sample import Sample

POWER = 0.8
_LEVEL = 0.05
MOST_WORTH_IT = 50  # more repeats of each side
_UNLUCKY = 0.2  # chance that the spread is even larger than the one that `at_worst` is of


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """For a difference as large as the one that was seen, to be found in 80 % of cases."""

    more: int | None  # repeats of each side; None: more than are worth it, or nobody knows
    at_worst: int | None  # if processes spread more than they seem to, as they do in one case of 5; None: more than are worth it
    words: str  # one clause


def plan(a: Sample, b: Sample) -> Plan:
    """From the spread over processes that both sides have in common; of one process alone nobody can tell."""
    if min(a.num_processes, b.num_processes) < 2:
        need = "run 2 more of each, and ask again"
        return Plan(
            more=None, at_worst=None, words=f"how many repeats would tell, one process cannot say: {need} (sweep.repeats=3)"
        )
    difference = abs(math.log(a.typical / b.typical))
    if difference < 1e-9:
        return Plan(more=None, at_worst=None, words="both are the same: no number of repeats would tell them apart")
    spread, freedom = _common_spread(a, b)
    more = _more(a, b, difference, spread)
    at_worst = _more(a, b, difference, spread * math.sqrt(freedom / _low_quantile(freedom)))
    return Plan(more=more, at_worst=at_worst, words=_words(more, at_worst, math.expm1(difference)))


def power(num_a: int, num_b: int, difference: float, spread: float) -> float:
    """Chance that a difference of logarithms is found, where processes spread by this standard deviation.

    Of Student's t at a level of 5 %, which is that of the interval.
    """
    from scipy.special import nctdtr, stdtrit

    freedom = num_a + num_b - 2
    away = difference / (spread * math.sqrt(1 / num_a + 1 / num_b))
    edge = float(stdtrit(freedom, 1 - _LEVEL / 2))
    return float(1 - nctdtr(freedom, away, edge) + nctdtr(freedom, away, -edge))


def _more(a: Sample, b: Sample, difference: float, spread: float) -> int | None:
    if spread == 0:
        return 0
    for more in range(MOST_WORTH_IT + 1):
        if power(a.num_processes + more, b.num_processes + more, difference, spread) >= POWER:
            return more
    return None


def _common_spread(a: Sample, b: Sample) -> tuple[float, int]:
    """Standard deviation of logarithms, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for side in (a, b):
        center = math.log(side.typical)
        squares += math.fsum((math.log(one) - center) ** 2 for one in side.images_per_second)
        freedom += side.num_processes - 1
    return math.sqrt(squares / freedom), freedom


def _low_quantile(freedom: int) -> float:
    from scipy.special import chdtri

    return float(chdtri(freedom, 1 - _UNLUCKY))


def _words(more: int | None, at_worst: int | None, difference: float) -> str:
    told = f"a factor of {1 + difference:.2g}" if difference >= 1 else f"a difference of {difference:.1%}"
    if more is None:
        return f"no number of repeats that is worth it (up to {MOST_WORTH_IT} more of each) would show {told}, if it is there"
    if more == 0:
        return f"so many repeats as there are show {told} in {POWER:.0%} of cases"
    worst = f"more than {MOST_WORTH_IT}" if at_worst is None else f"{at_worst}"
    unsure = f", or {worst} if they spread more than so few can tell," if at_worst is None or at_worst > more else ""
    s = "" if more == 1 else "s"
    return f"{more} more repeat{s} of each{unsure} would show {told}, if it is there"

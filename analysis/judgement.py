"""Judges whether two sides differ, tie, or cannot be decided, by the ratio of their throughputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from analysis.titles import number
from scalemark.stats.distributions import chance_beyond, upper_quantile
from scalemark.stats.welch import (
    LEVEL,
    Relation,
    freedom_of_sum,
    known_ratio_interval,
    log_variance,
    reach_of_ratio,
    relation_by,
    typical,
)

if TYPE_CHECKING:
    import numpy as np

POWER = 0.8
MOST_WORTH_IT = 50  # more repeats of each side
_NUM_NODES = 80
_NUM_RANGES = 201
_NUM_ERRORS = 160
_LEAST_LOG = 20.0  # below the peak of a density, where it ends
_LARGEST = 8.0  # standard deviations: beyond there is nothing of a normal distribution
_NEAR = 1e-6  # share of the quantile, or of the chance
_LEAST_CHANCE = 1e-12  # the quadrature may have less than none
_MOST_STEPS = 50
LEAST_GAP = 1.1  # times, between two groups of repeats that contradict each other


class Decision(StrEnum):
    """The answer to a comparison."""

    DIFFERENT = "different"
    TIE = "tie"
    UNKNOWN = "not conclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Throughput of A divided by that of B."""

    ratio: float  # of geometric means over processes
    low: float | None  # 95 % CI over processes; None where a side is a single run
    high: float | None
    num_a: int  # processes
    num_b: int

    @property
    def turned(self) -> Ratio:
        """B divided by A."""
        low, high = None, None
        if self.low is not None and self.high is not None:
            low, high = 1 / self.high, 1 / self.low
        ratio = 1 / self.ratio
        return Ratio(ratio=ratio, low=low, high=high, num_a=self.num_b, num_b=self.num_a)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two groups of repeats of one trial, of which one is not what was to be measured."""

    slow: tuple[float, ...]  # throughput
    fast: tuple[float, ...]

    def words(self, unit: str = "") -> str:
        slow, fast = ", ".join(map(number, self.slow)), ", ".join(map(number, self.fast))
        return f"{slow} against {fast} {unit}".rstrip()


def contradiction(repeats: Sequence[float]) -> Contradiction | None:
    """Split repeats at the widest gap between them, if that is 10 % or more."""
    speeds = sorted(repeats)
    if speeds and speeds[0] <= 0:
        return None
    gaps = [faster / slower for slower, faster in pairwise(speeds)]
    gap = max(gaps, default=1.0)
    if gap < LEAST_GAP:
        return None
    cut = gaps.index(gap) + 1
    return Contradiction(slow=tuple(speeds[:cut]), fast=tuple(speeds[cut:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer to one comparison, and what it rests on."""

    answer: Decision
    ratio: Ratio
    contradictions: tuple[tuple[str, Contradiction], ...]  # A or B, and how its repeats disagree


def ratio(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Compare the throughputs of processes. The interval is Student's t (`scalemark.stats.welch`);
    measured, it holds the truth in 93 to 98 % of cases of 2 to 10 processes
    (`benchmarks/coverage.py`).
    """
    low, high = known_ratio_interval(a, b)
    # of geometric means, so that A / B is one over B / A
    return Ratio(ratio=typical(a) / typical(b), low=low, high=high, num_a=len(a), num_b=len(b))


def judge(a: Sequence[float], b: Sequence[float]) -> Judgement:
    """Judge by the interval over processes alone, as all who compare a pair do.

    Repeats that contradict each other are no tie. A single run decides nothing.
    """
    compared = ratio(a, b)
    contradictions = []
    for label, repeats in (("A", a), ("B", b)):
        camps = contradiction(repeats)
        if camps:
            contradictions.append((label, camps))
    answer = _DECISIONS[relation_by(compared.low, compared.high)]
    if answer is Decision.TIE and contradictions:
        answer = Decision.UNKNOWN
    return Judgement(answer=answer, ratio=compared, contradictions=tuple(contradictions))


_DECISIONS = {
    Relation.MORE: Decision.DIFFERENT,
    Relation.LESS: Decision.DIFFERENT,
    Relation.TIE: Decision.TIE,
    Relation.UNKNOWN: Decision.UNKNOWN,
}


def more_repeats(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> int | None:
    """Return how many more repeats of each side show a difference as large as the one seen in 80 %
    of cases, for the interval of `level` that the two are judged by.

    None: more than are worth it, or unknown, as the spread of a single run is.
    """
    nums = len(a), len(b)
    difference = abs(math.log(typical(a) / typical(b)))
    if min(nums) < 2 or difference < 1e-9:
        return None
    variances = log_variance(a), log_variance(b)
    for more in range(MOST_WORTH_IT + 1):
        if power((nums[0] + more, nums[1] + more), difference, variances, level) >= POWER:
            return more
    return None


def power(
    nums: tuple[int, int], difference: float, variances: tuple[float, float], level: float = LEVEL
) -> float:
    """Return the chance that Welch's interval finds a difference of logarithms: a noncentral t,
    which is normal for each error that may be seen.
    """
    squares = [(variance / num, num - 1) for variance, num in zip(variances, nums, strict=True)]
    error = math.sqrt(math.fsum(square for square, _ in squares))
    edge, away = reach_of_ratio(variances, nums, level) / error, difference / error
    errors, weights = _errors(freedom_of_sum(squares))
    return float(weights @ (_below(away - edge * errors) + _below(-away - edge * errors)))


@lru_cache(maxsize=10_000)
def pair_quantile(num: int, freedom: float, level: float = LEVEL) -> float:
    """Return what the distance of the first and the last of `num` equals, 2 or more, exceeds with
    probability `level`, in standard errors of the distance of two.

    Tukey (1953). The error is known by so many degrees of freedom, 1 or more; of two choices it is
    the quantile of Student's t.
    """
    two = upper_quantile(level / 2, freedom)
    if num == 2:
        return two

    def excess(place: float) -> float:
        chance = _exceeds(math.exp(place), num, freedom)
        return math.log(max(chance, _LEAST_CHANCE) / level)

    # Bonferroni's is larger; the Illinois method closes in (Dowell and Jarratt 1971)
    left, right = math.log(two), math.log(upper_quantile(level / (num * (num - 1)), freedom))
    of_left, of_right = excess(left), excess(right)
    for _ in range(_MOST_STEPS):
        if abs(right - left) < _NEAR or abs(of_right) < _NEAR:
            break
        place = right - of_right * (right - left) / (of_right - of_left)
        found = excess(place)
        if found * of_right < 0:
            left, of_left = right, of_right
        else:
            of_left /= 2
        right, of_right = place, found
    return math.exp(right)


def pair_level(num: int, freedom: float, level: float = LEVEL) -> float:
    """Return the level at which an interval of two alone would be as wide."""
    return 2 * chance_beyond(pair_quantile(num, freedom, level), freedom)


def _exceeds(distance: float, num: int, freedom: float) -> float:
    """Return the chance that equals differ by more."""
    import numpy as np

    errors, weights = _errors(freedom)
    ranges, (chances, bends) = _grid()[0], _of_ranges(num)
    places = math.sqrt(2) * distance * errors
    part = places / ranges[1] % 1  # by Everett's formula, cubic between the places of the grid
    straight = np.interp(places, ranges, chances)
    return float(weights @ (straight - part * (1 - part) / 2 * np.interp(places, ranges, bends)))


@lru_cache(maxsize=10_000)
def _of_ranges(num: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the chances that the first and the last of `num`, which spread by 1, are farther apart
    than each place of the grid, and the second differences of these.
    """
    import numpy as np

    _, log_within, density = _grid()
    chances = 1 - num * np.exp((num - 1) * log_within) @ density
    return chances, np.diff(chances, n=2, prepend=1, append=0)


@lru_cache
def _grid() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return places (ranges,), the logarithm of the chance (ranges, nodes) that one is within a
    range below the highest, and the density of that (nodes,), as quadrature takes it.
    """
    import numpy as np

    ranges = np.linspace(0, 2 * _LARGEST, _NUM_RANGES)
    nodes, weights = np.polynomial.legendre.leggauss(_NUM_NODES)
    highest = _LARGEST * nodes
    density = np.exp(-(highest**2) / 2) / math.sqrt(2 * math.pi) * _LARGEST * weights
    within = _below(highest) - _below(highest - ranges[:, None])
    return ranges, np.log(np.maximum(within, _LEAST_CHANCE)), density


@lru_cache
def _errors(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """Return errors, in units of the true one, and their weights: the density of their logarithm,
    at equal distances, up to where it is e^-20 of its peak.
    """
    import numpy as np

    far = _LEAST_LOG / freedom
    logs = np.linspace(-far - math.sqrt(2 * far), min(2.0, math.sqrt(far)), _NUM_ERRORS)
    weights = np.exp(freedom * (logs + 0.5 - np.exp(2 * logs) / 2))
    return np.exp(logs), weights / weights.sum()


def _below(places: np.ndarray) -> np.ndarray:
    """Return the chance of less, of a normal distribution."""
    import numpy as np

    of_each = np.vectorize(math.erfc, otypes=[float])
    return np.asarray(of_each(places / -math.sqrt(2))) / 2

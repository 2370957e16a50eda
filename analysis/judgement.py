"""Judges whether two sides differ, tie, or cannot be decided, by the ratio of their throughputs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from analysis.titles import number
from scalemark.stats import welch
from scalemark.stats.welch import (
    LEVEL,
    Relation,
    chance_beyond,
    freedom_of_sum,
    known_ratio_interval,
    log_variance,
    reach_of_ratio,
    relation_by,
    upper_quantile,
)

if TYPE_CHECKING:
    import numpy as np

POWER = 0.8
MOST_WORTH_IT = 50  # more repeats of each side
_NUM_NODES = 80
_LARGEST = 8.0  # standard deviations: beyond there is nothing of a normal distribution
_NEAR = 1e-6  # of the quantile, as a share
_MOST_STEPS = 50
LEAST_GAP = 1.1  # times, between two groups of repeats that contradict each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One side of a comparison: the repeats of one trial in one environment."""

    throughput: tuple[float, ...]  # of each process, above 0
    unit: str = ""  # of throughput, as images/s; empty where words need none

    def __post_init__(self) -> None:
        if not self.throughput or not all(
            math.isfinite(value) and value > 0 for value in self.throughput
        ):
            raise ValueError(f"{self.throughput}: wanted numbers above 0 of at least one process")

    @classmethod
    def of(cls, throughput: Iterable[float], unit: str = "") -> Sample:
        return cls(throughput=tuple(throughput), unit=unit)

    @property
    def num_processes(self) -> int:
        return len(self.throughput)

    @property
    def typical(self) -> float:
        """Geometric mean: what ratios are made of, so that A / B is one over B / A."""
        return welch.typical(self.throughput)


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
        return Ratio(
            ratio=1 / self.ratio,
            low=None if self.high is None else 1 / self.high,
            high=None if self.low is None else 1 / self.low,
            num_a=self.num_b,
            num_b=self.num_a,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two groups of repeats of one trial, of which one is not what was to be measured."""

    slow: tuple[float, ...]  # throughput
    fast: tuple[float, ...]
    unit: str  # of throughput

    @property
    def words(self) -> str:
        slow, fast = (", ".join(map(number, speeds)) for speeds in (self.slow, self.fast))
        return f"{slow} against {fast} {self.unit}".rstrip()


def contradiction(side: Sample) -> Contradiction | None:
    """Split repeats at the widest gap between them, if that is 10 % or more."""
    speeds = sorted(side.throughput)
    gaps = [faster / slower for slower, faster in pairwise(speeds)]
    gap = max(gaps, default=1.0)
    if gap < LEAST_GAP:
        return None
    cut = gaps.index(gap) + 1
    return Contradiction(slow=tuple(speeds[:cut]), fast=tuple(speeds[cut:]), unit=side.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer to one comparison, and what it rests on."""

    answer: Decision
    ratio: Ratio
    contradictions: tuple[tuple[str, Contradiction], ...]  # A or B, and how its repeats disagree


def ratio(a: Sample, b: Sample) -> Ratio:
    """Compare over processes. The interval is Student's t (`scalemark.stats.welch`); measured, it
    holds the truth in 93 to 98 % of cases of 2 to 10 processes (`benchmarks/coverage.py`).
    """
    low, high = known_ratio_interval(a.throughput, b.throughput)
    return Ratio(
        ratio=a.typical / b.typical,
        low=low,
        high=high,
        num_a=a.num_processes,
        num_b=b.num_processes,
    )


def judge(a: Sample, b: Sample) -> Judgement:
    """Judge by the interval over processes alone, as all who compare a pair do.

    Repeats that contradict each other are no tie. A single run decides nothing.
    """
    compared = ratio(a, b)
    contradictions = []
    for label, side in (("A", a), ("B", b)):
        camps = contradiction(side)
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

    The square of a noncentral t is a noncentral F, which scipy computes for large differences, too.
    """
    from scipy.special import ncfdtr

    errors = [(variance / num, num - 1) for variance, num in zip(variances, nums, strict=True)]
    squared = math.fsum(error for error, _ in errors)
    edge, away = reach_of_ratio(variances, nums, level) ** 2 / squared, difference**2 / squared
    return float(1 - ncfdtr(1, freedom_of_sum(errors), away, edge))


@lru_cache(maxsize=10_000)
def pair_quantile(num: int, freedom: float, level: float = LEVEL) -> float:
    """Return what the distance of the first and the last of `num` equals, 2 or more, exceeds with
    probability `level`, in standard errors of the distance of two. scipy's own takes
    a second to import.

    Tukey (1953). The error is known by so many degrees of freedom, 1 or more; of two choices it is
    the quantile of Student's t.
    """
    two = upper_quantile(level / 2, freedom)
    if num == 2:
        return two
    low, high = two, upper_quantile(level / (num * (num - 1)), freedom)  # Bonferroni's is larger
    for _ in range(_MOST_STEPS):
        middle = math.sqrt(low * high)
        if _exceeds(middle, num, freedom) > level:
            low = middle
        else:
            high = middle
        if high / low - 1 < _NEAR:
            break
    return high


def pair_level(num: int, freedom: float, level: float = LEVEL) -> float:
    """Return the level at which an interval of two alone would be as wide."""
    return 2 * chance_beyond(pair_quantile(num, freedom, level), freedom)


def _exceeds(distance: float, num: int, freedom: float) -> float:
    """Return the chance that equals differ by more."""
    import numpy as np
    from scipy.special import chdtri, ndtr

    nodes, weights_of_nodes = _nodes()
    # by the chance of a smaller error, with more places where it is small
    places = (nodes + 1) / 2
    errors = np.sqrt(chdtri(freedom, 1 - places**3) / freedom)
    weights = weights_of_nodes / 2 * 3 * places**2
    ranges = math.sqrt(2) * distance * errors[:, None]
    highest = _LARGEST * nodes
    density = np.exp(-(highest**2) / 2) / math.sqrt(2 * math.pi) * _LARGEST * weights_of_nodes
    within = (ndtr(highest) - ndtr(highest - ranges)) ** (num - 1)
    return float(weights @ (1 - num * within @ density))


@lru_cache
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Return places and weights of a quadrature; here, since numpy takes 0.1 s to import."""
    import numpy as np

    return np.polynomial.legendre.leggauss(_NUM_NODES)

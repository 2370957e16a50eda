"""Repeats of one trial that fall into two groups, of which one is not what was to be measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from analysis.statistics.sample import Sample
from analysis.titles import number

LEAST_GAP = 1.1  # times, between the groups
NUM_ERRORS_APART = 4.0  # standard errors within processes that do not explain the gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two groups of repeats of one trial."""

    slow: tuple[float, ...]  # throughput
    fast: tuple[float, ...]
    attempt_ids: tuple[int, int] | None  # those of the slowest and the fastest, where known
    noise: float | None  # standard error within processes, as a share; None: no steps at hand
    unit: str  # of throughput

    @property
    def words(self) -> str:
        slow, fast = (", ".join(map(number, speeds)) for speeds in (self.slow, self.fast))
        text = f"{slow} against {fast} {self.unit}".rstrip()
        if self.noise is None:
            return text
        return f"{text}, where noise within a process explains {_explained(self.noise):.1%}"


def contradiction(side: Sample) -> Contradiction | None:
    """Split at the widest gap, if that is 10 % or more and not noise within processes."""
    order = sorted(range(side.num_processes), key=lambda place: side.throughput[place])
    speeds = [side.throughput[place] for place in order]
    if len(speeds) < 2:
        return None
    gaps = [math.log(faster / slower) for slower, faster in pairwise(speeds)]
    gap = max(gaps)
    noise = _noise(side.durations_s)
    if gap < math.log(LEAST_GAP) or (noise is not None and gap < _explained(noise)):
        return None
    cut = gaps.index(gap) + 1
    ends = None
    if side.attempt_ids:
        ends = (side.attempt_ids[order[0]], side.attempt_ids[order[-1]])
    return Contradiction(
        slow=tuple(speeds[:cut]),
        fast=tuple(speeds[cut:]),
        attempt_ids=ends,
        noise=noise,
        unit=side.unit,
    )


def _explained(noise: float) -> float:
    """Return how far apart two processes may be, though they are alike."""
    return NUM_ERRORS_APART * noise * math.sqrt(2)


def _noise(durations_s: Sequence[Sequence[float]]) -> float | None:
    """Return the typical standard error of a process's mean."""
    if not durations_s:
        return None
    from scalemark.stats.within_process import spread_within  # here, because it imports numpy

    spreads = [spread_within(steps) for steps in durations_s]
    known = [steps.squared_error for steps in spreads if steps is not None]
    return math.sqrt(math.fsum(known) / len(known)) if known else None

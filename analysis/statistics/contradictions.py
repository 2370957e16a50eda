"""Repeats of one trial that fall into two camps: one of both is not what was meant to be
measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.statistics.sample import Sample
from analysis.text.numbers import number
from scalemark.stats.within_process import spread_within

LEAST_GAP = 1.1  # between the camps
NUM_ERRORS_APART = 4.0  # standard errors within processes that do not explain the gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Of the repeats of one trial."""

    slow: tuple[float, ...]  # images/s
    fast: tuple[float, ...]
    attempt_ids: tuple[int, int] | None  # those of the slowest and the fastest, where known
    noise: float | None  # standard error within processes, as a share; None: no steps at hand

    @property
    def words(self) -> str:
        explained = (
            ""
            if self.noise is None
            else f", where noise within a process explains {_explained(self.noise):.1%}"
        )
        return f"{_listed(self.slow)} against {_listed(self.fast)} images/s{explained}"


def contradiction(side: Sample) -> Contradiction | None:
    """The widest gap between neighbors in speed, if it is 10 % or more, and more than noise within
    processes makes.
    """
    order = sorted(range(side.num_processes), key=lambda place: side.throughput[place])
    speeds = [side.throughput[place] for place in order]
    if len(speeds) < 2:
        return None
    gap, cut = max(
        (math.log(speeds[place] / speeds[place - 1]), place) for place in range(1, len(speeds))
    )
    noise = _noise(side.durations_s)
    if gap < math.log(LEAST_GAP) or (noise is not None and gap < _explained(noise)):
        return None
    ends = (side.attempt_ids[order[0]], side.attempt_ids[order[-1]]) if side.attempt_ids else None
    return Contradiction(
        slow=tuple(speeds[:cut]), fast=tuple(speeds[cut:]), attempt_ids=ends, noise=noise
    )


def _explained(noise: float) -> float:
    """How far apart two processes may be, though they are alike."""
    return NUM_ERRORS_APART * noise * math.sqrt(2)


def _noise(durations_s: Sequence[Sequence[float]]) -> float | None:
    """Typical standard error of a process's mean."""
    spreads = [spread_within(one) for one in durations_s]
    known = [one.variance for one in spreads if one is not None]
    return math.sqrt(math.fsum(known) / len(known)) if known else None


def _listed(speeds: Sequence[float]) -> str:
    return ", ".join(map(number, speeds))

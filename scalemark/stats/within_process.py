"""The error of the mean step of one process, whose steps may resemble their neighbors and drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.slow_noise import error_of_mean
from scalemark.stats.trend import without_trend
from scalemark.stats.two_speeds import Pauses, TwoSpeeds, pauses, reaches, two_speeds
from scalemark.stats.warm_up import WarmUp, rough_warm_up, warm_up
from scalemark.stats.welch import log_quantile

FEWEST_STEPS = 8
# where none of so many steps was a pause, pauses of one step in 50 are excluded with 98 %
FEWEST_WITHOUT_PAUSE = 200
# of the logarithm of the speed: an interval from a third to three times the speed says nothing
LARGEST_REACH = 1.0
_ENDLESS = 500.0  # of a logarithm, which exp() can still take


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The error of the logarithm of a process's speed."""

    variance: float  # of steps at one speed, without pauses
    freedom: float  # degrees, of Student's t
    # of pauses, as if each came once in so many steps, and of two speeds
    variance_of_events: float = 0.0
    # so much slower and faster may it be with 95 % because pauses are rare, and so much if it kept
    # one of two speeds: logarithms, 0 or more
    slower: float = 0.0
    faster: float = 0.0
    warmer: float = 0.0  # logarithm: so much faster is it after its warm-up; below 0 slower
    lost: float | None = None  # share of its time that pauses took; None where none was seen
    num_steps: int = 0  # that were looked at for pauses

    @property
    def squared_error(self) -> float:
        """Return the variance with pauses and speeds."""
        return self.variance + self.variance_of_events

    @property
    def left_out(self) -> str:
        """Name what too few steps cannot show; empty where some pauses were seen, or so many steps
        without any that they are rare.
        """
        if self.lost is not None or self.num_steps >= FEWEST_WITHOUT_PAUSE:
            return ""
        return f"pauses rarer than 1 in {self.num_steps // 3} steps"  # as 95 % of such would show

    @property
    def reaches(self) -> tuple[float, float]:
        """Return how far the 95 % CI reaches down and up from the speed after a warm-up."""
        reach = math.exp(log_quantile(self.freedom)) * math.sqrt(self.variance)
        return math.hypot(reach, self.slower), math.hypot(reach, self.faster)

    @property
    def is_known(self) -> bool:
        """Say whether that interval is narrow enough to say something (`LARGEST_REACH`)."""
        slower, faster = self.reaches
        return max(slower - self.warmer, faster + self.warmer) <= LARGEST_REACH

    def beside(self, others: Sequence[Spread]) -> Spread:
        """Return it as other processes make it known: what pauses cost these on average they may
        cost this one, too, where it shows none by chance.
        """
        if not self.left_out or all(one.lost is None for one in others):
            return self
        lost = fmean(one.lost or 0.0 for one in others)
        return replace(self, slower=math.hypot(self.slower, math.log1p(lost)), lost=lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The steps of a process, taken apart."""

    pauses: Pauses
    speeds: TwoSpeeds | None = None
    warm_up: WarmUp | None = None  # never beside two speeds


def interval_within(throughput: float, durations_s: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % CI of the speed of a process whose steps took so long.

    Returns None for fewer than 8 steps, or too few for how much they vary (`LARGEST_REACH`).
    """
    spread = spread_within(durations_s)
    if spread is None or not spread.is_known:
        return None
    return interval_around(throughput, *spread.reaches, warmer=spread.warmer)


def interval_around(
    speed: float, slower: float, faster: float, *, warmer: float
) -> tuple[float, float]:
    """Return the interval that reaches so much down and up from the speed after a warm-up, and to
    the speed itself.
    """
    low, high = min(warmer - slower, 0.0), max(warmer + faster, 0.0)
    return speed * math.exp(max(low, -_ENDLESS)), speed * math.exp(min(high, _ENDLESS))


def spread_within(durations_s: Sequence[float]) -> Spread | None:
    """Estimate it from the steps of one process; None for fewer than 8 of them.

    A straight line is no error: the drift of this process is part of its speed. A warm-up is not
    (`warm_up`), and may take as much again, since how it fades is unknown. Two speeds that took
    turns once or twice (`two_speeds`) leave both possible. Pauses are judged apart (`pauses`),
    since few of them tell little of how often they come; what is left may resemble its neighbors
    (`slow_noise`). All reaches add up as those of independent errors do (Zou & Donner 2008,
    doi:10.1002/sim.3095). What is inside how often: `benchmarks/coverage.py`, docs/compare.md.
    """
    num = len(durations_s)
    if num < FEWEST_STEPS:
        return None
    durations = np.asarray(durations_s, dtype=np.float64)
    parts = _parts(durations / durations.mean())
    error = error_of_mean(without_trend(parts.pauses.smooth))
    extra = parts.pauses.extra / num
    less, more = reaches(extra)
    slower_by_pauses, faster_by_pauses = _as_logarithms(more, less)
    variance_of_speeds = slower = faster = 0.0
    if parts.speeds is not None:
        variance_of_speeds = parts.speeds.variance
        slower, faster = _as_logarithms(parts.speeds.slower, parts.speeds.faster)
    warmer, by_shape, inflation = 0.0, 0.0, 1.0
    if parts.warm_up is not None:
        _, warmer = _as_logarithms(0.0, float(parts.warm_up.extra.mean()))
        by_shape, inflation = abs(warmer), parts.warm_up.inflation
    return Spread(
        variance=error.variance * inflation,
        freedom=error.freedom,
        variance_of_events=float(np.dot(extra, extra)) + variance_of_speeds,
        slower=math.hypot(slower, slower_by_pauses, by_shape),
        faster=math.hypot(faster, faster_by_pauses, by_shape),
        warmer=warmer,
        lost=max(float(extra.sum()), 0.0) if len(extra) else None,
        num_steps=num,
    )


def _parts(values: NDArray[np.float64]) -> _Parts:
    """Take them apart: two speeds, where a line, with a warm-up or without, leaves more."""
    line, rough = without_trend(values), rough_warm_up(values)
    warmed = without_trend(values - rough)
    around = warmed if np.dot(warmed, warmed) < np.dot(line, line) else line
    speeds = two_speeds(values, around)
    if speeds is not None:
        return _Parts(pauses=pauses(without_trend(speeds.rest)), speeds=speeds)
    found = pauses(warmed)
    smooth = found.smooth + rough
    fading = warm_up(smooth)
    if fading is None:
        return _Parts(pauses=pauses(line))
    return _Parts(pauses=replace(found, smooth=smooth - fading.extra), warm_up=fading)


def _as_logarithms(more: float, less: float) -> tuple[float, float]:
    """Return how much slower and faster a process is whose steps take so much more or less."""
    return math.log1p(more), -math.log1p(-min(less, 1 - 1e-9))

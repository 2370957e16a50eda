"""The error of the mean step of one process, whose steps may resemble their neighbors and drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalemark.stats.pauses import pauses, reaches
from scalemark.stats.slow_noise import error_of_mean
from scalemark.stats.student import log_quantile
from scalemark.stats.trend import without_trend
from scalemark.stats.two_speeds import two_speeds

FEWEST_STEPS = 8
# where none of so many steps was a pause, pauses of one step in 50 are excluded with 98 %
FEWEST_WITHOUT_PAUSE = 200
# of the logarithm of the speed: an interval from a third to three times the speed says nothing
LARGEST_REACH = 1.0


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

    def beside(self, other: Spread) -> Spread:
        """Return it as another process makes it known: what pauses cost the other they may cost
        this one, too, which shows none by chance.
        """
        if not self.left_out:
            return self
        return replace(
            self,
            slower=math.hypot(self.slower, math.log1p(other.lost or 0.0)),
            lost=other.lost,
            num_steps=self.num_steps + other.num_steps,
        )


def interval_within(throughput: float, durations_s: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % CI of the speed of a process whose steps took so long.

    Returns None for fewer than 8 steps, or too few for how much they vary (`LARGEST_REACH`).
    """
    spread = spread_within(durations_s)
    if spread is None:
        return None
    reach = math.exp(log_quantile(spread.freedom)) * math.sqrt(spread.variance)
    slower, faster = math.hypot(reach, spread.slower), math.hypot(reach, spread.faster)
    if max(slower, faster) > LARGEST_REACH:
        return None
    return throughput * math.exp(-slower), throughput * math.exp(faster)


def spread_within(durations_s: Sequence[float]) -> Spread | None:
    """Estimate it from the steps of one process; None for fewer than 8 of them.

    A straight line is no error: the drift of this process is part of its speed. Two speeds that
    took turns once or twice (`two_speeds`) leave both possible. Pauses are judged apart (`pauses`),
    since few of them tell little of how often they come; what is left may resemble its neighbors
    (`slow_noise`). All reaches add up as those of independent errors do (Zou & Donner 2008,
    doi:10.1002/sim.3095). What is inside how often: `benchmarks/coverage.py`, docs/compare.md.
    """
    num = len(durations_s)
    if num < FEWEST_STEPS:
        return None
    durations = np.asarray(durations_s, dtype=np.float64)
    values = durations / durations.mean()
    around = without_trend(values)
    speeds = two_speeds(values, around)
    found = pauses(around if speeds is None else without_trend(speeds.rest))
    error = error_of_mean(without_trend(found.smooth))
    extra = found.extra / num
    less, more = reaches(extra)
    variance_of_speeds = slower = faster = 0.0
    if speeds is not None:
        variance_of_speeds = speeds.variance
        slower, faster = _as_logarithms(speeds.slower, speeds.faster)
    slower_by_pauses, faster_by_pauses = _as_logarithms(more, less)
    return Spread(
        variance=error.variance,
        freedom=error.freedom,
        variance_of_events=float(np.dot(extra, extra)) + variance_of_speeds,
        slower=math.hypot(slower, slower_by_pauses),
        faster=math.hypot(faster, faster_by_pauses),
        lost=max(float(extra.sum()), 0.0) if len(extra) else None,
        num_steps=num,
    )


def _as_logarithms(more: float, less: float) -> tuple[float, float]:
    """Return how much slower and faster a process is whose steps take so much more or less."""
    return math.log1p(more), -math.log1p(-min(less, 1 - 1e-9))

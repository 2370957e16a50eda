"""The error of the mean step of one process, whose steps may resemble their neighbors and drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalemark.stats.pauses import pauses, reaches
from scalemark.stats.slow_noise import error_of_mean
from scalemark.stats.student import log_quantile

FEWEST_STEPS = 8
# of the logarithm of the speed: an interval from a third to three times the speed says nothing
LARGEST_REACH = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The error of the logarithm of a process's speed."""

    variance: float  # without pauses
    freedom: float  # degrees, of Student's t
    variance_of_pauses: float = 0.0  # as if each came once in so many steps, on average
    # so much slower and faster may it be with 95 % because pauses are rare: logarithms, 0 or more
    slower: float = 0.0
    faster: float = 0.0

    @property
    def squared_error(self) -> float:
        """Return the variance with pauses."""
        return self.variance + self.variance_of_pauses


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

    A straight line is no error: the drift of this process is part of its speed. Pauses are judged
    apart (`pauses`), since few of them tell little of how often they come; what is left may
    resemble its neighbors (`slow_noise`). Both reaches add up as those of independent errors do
    (Zou & Donner 2008, doi:10.1002/sim.3095). What is inside how often: `benchmarks/coverage.py`,
    docs/compare.md.
    """
    if len(durations_s) < FEWEST_STEPS:
        return None
    durations = np.asarray(durations_s, dtype=np.float64)
    around = without_trend(durations / durations.mean())
    found = pauses(around)
    error = error_of_mean(without_trend(found.smooth))
    extra = found.extra / len(around)
    less, more = reaches(extra)
    return Spread(
        variance=error.variance,
        freedom=error.freedom,
        variance_of_pauses=float(np.dot(extra, extra)),
        slower=math.log1p(more),
        faster=-math.log1p(-min(less, 1 - 1e-9)),
    )


def without_trend(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what a straight line leaves."""
    time = np.arange(len(values)) - (len(values) - 1) / 2
    slope = np.dot(values, time) / np.dot(time, time)
    left: NDArray[np.float64] = values - values.mean() - slope * time
    return left

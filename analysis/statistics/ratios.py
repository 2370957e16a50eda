"""How much faster one side is than the other, with an interval that says what it is an interval
of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from analysis.statistics.sample import Sample
from scalemark.stats.welch import error_of_log_mean, ratio_interval, reach_of_sum
from scalemark.stats.within_process import Spread, spread_within


class Method(StrEnum):
    """Where an interval comes from."""

    PROCESSES = "t over processes"
    STEPS = "block bootstrap within one process"  # says nothing of other processes
    NONE = "no interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Images/s of A divided by those of B."""

    ratio: float  # of geometric means over processes
    low: float | None  # 95 % interval; None where nothing is known about it
    high: float | None
    method: Method
    num_a: int  # processes
    num_b: int
    note: str  # what a reader must know; empty where nothing is

    @property
    def is_over_processes(self) -> bool:
        return self.method is Method.PROCESSES


def ratio(a: Sample, b: Sample) -> Ratio:
    """With two or more processes of each side the interval is over processes, else within the only
    one, and `note` says so.

    Over processes it is Student's t, see `scalemark.stats.welch`; measured, it holds the truth in 93 to 98 %
    of cases of 2 to 10. A hierarchical bootstrap (of processes, then of blocks of their steps) does
    so in 70 to 77 % of 2, 81 to 86 % of 3, 88 to 91 % of 5 and 92 % of 10, so it is not used; it
    would know no more: a process's images/s are the mean of its steps (`benchmarks/coverage.py`).
    """
    found = a.typical / b.typical
    nums = {"num_a": a.num_processes, "num_b": b.num_processes}
    if min(nums.values()) > 1:
        low, high = ratio_interval(a.throughput, b.throughput)
        return Ratio(ratio=found, low=low, high=high, method=Method.PROCESSES, note="", **nums)
    spreads = _spread(a), _spread(b)
    if spreads[0] is None or spreads[1] is None:
        return Ratio(
            ratio=found,
            low=None,
            high=None,
            method=Method.NONE,
            note=f"{_alone(a, b)}; its steps tell no interval",
            **nums,
        )
    reach = reach_of_sum([(one.variance, one.freedom) for one in (spreads[0], spreads[1])])
    return Ratio(
        ratio=found,
        low=found * math.exp(-reach),
        high=found * math.exp(reach),
        method=Method.STEPS,
        note=(
            f"{_alone(a, b)}; the interval is within it, and says nothing of what another "
            "process would bring"
        ),
        **nums,
    )


def _alone(a: Sample, b: Sample) -> str:
    if a.num_processes == b.num_processes:
        return "one process of each side"
    return f"one process of {'A' if a.num_processes == 1 else 'B'}"


def _spread(side: Sample) -> Spread | None:
    """Of the logarithm of its images/s: a variance of shares is that of logarithms."""
    if side.num_processes == 1:
        return spread_within(side.durations_s[0]) if side.durations_s else None
    return Spread(variance=error_of_log_mean(side.throughput) ** 2, freedom=side.num_processes - 1)

"""Estimates how much faster one side is than the other, with a 95 % CI and what that is over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from analysis.statistics.sample import Sample
from scalemark.stats.welch import error_of_log_mean, ratio_interval, reach_of_sum
from scalemark.stats.within_process import ProcessSpread, interval_around, spread_within


class Method(StrEnum):
    """The origin of an interval."""

    PROCESSES = "t over processes"
    STEPS = "spectrum of the steps within one process"  # says nothing of other processes
    NONE = "no interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Throughput of A divided by that of B."""

    ratio: float  # of geometric means over processes
    low: float | None  # 95 % CI; None where nothing is known about it
    high: float | None
    method: Method
    num_a: int  # processes
    num_b: int
    note: str  # what a reader must know; empty where nothing is

    @property
    def is_over_processes(self) -> bool:
        return self.method is Method.PROCESSES

    @property
    def turned(self) -> Ratio:
        """B divided by A."""
        return Ratio(
            ratio=1 / self.ratio,
            low=None if self.high is None else 1 / self.high,
            high=None if self.low is None else 1 / self.low,
            method=self.method,
            num_a=self.num_b,
            num_b=self.num_a,
            note=self.note,
        )


def ratio(a: Sample, b: Sample) -> Ratio:
    """Compare over processes, or within a single run, as `note` says then.

    Over processes the interval is Student's t (`scalemark.stats.welch`); measured, it holds the
    truth in 93 to 98 % of cases of 2 to 10. A hierarchical bootstrap (of processes, then of blocks
    of their steps) does so in 70 to 92 %, so it is not used; it would know no more: a process's
    throughput is the mean of its steps (`benchmarks/coverage.py`).
    """
    found = a.typical / b.typical
    low, high, method, note = None, None, Method.NONE, ""
    if min(a.num_processes, b.num_processes) > 1:
        method = Method.PROCESSES
        low, high = ratio_interval(a.throughput, b.throughput)
    else:
        note = "single run of each side"
        if a.num_processes != b.num_processes:
            note = f"single run of {'A' if a.num_processes == 1 else 'B'}"
        of_a, of_b = _spread(a, b), _spread(b, a)
        if of_a is None or of_b is None:
            note += ", too few steps for an interval"
        else:
            method = Method.STEPS
            low, high = _within(found, of_a, of_b)
            note += ", the interval is within it"
    return Ratio(
        ratio=found,
        low=low,
        high=high,
        method=method,
        num_a=a.num_processes,
        num_b=b.num_processes,
        note=note,
    )


def _within(found: float, of_a: ProcessSpread, of_b: ProcessSpread) -> tuple[float, float]:
    reach = reach_of_sum([(one.variance, one.freedom) for one in (of_a, of_b)])
    slower = math.hypot(reach, of_a.slower, of_b.faster)
    faster = math.hypot(reach, of_a.faster, of_b.slower)
    return interval_around(found, slower, faster, warmer=of_a.warmer - of_b.warmer)


def _spread(side: Sample, other: Sample) -> ProcessSpread | None:
    """Return that of the logarithm of throughput: a variance of shares is that of logarithms. Of a
    single run it knows what pauses cost the other side; None where it has no interval of its own.
    """
    if side.num_processes > 1:
        return ProcessSpread(
            variance=error_of_log_mean(side.throughput) ** 2, freedom=side.num_processes - 1
        )
    spread = spread_within(side.durations_s[0]) if side.durations_s else None
    if spread is None or not spread.is_known:
        return None
    if not spread.left_out:
        return spread
    others = [spread_within(one) for one in other.durations_s]
    return spread.beside([one for one in others if one is not None])

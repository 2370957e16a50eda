"""Seconds per step of trials and their differences, with intervals over repeats."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.results import Result, items_per_step
from scalemark.stats import welch
from scalemark.stats.welch import log_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """A figure and its 95 % CI."""

    value: float
    low: float | None  # None where nothing is known of it
    high: float | None
    # the interval is over repeats on every side; else within single runs, and too narrow
    over_processes: bool

    @property
    def is_conclusive(self) -> bool:
        """Return whether the interval may decide something."""
        return self.over_processes and self.low is not None

    def plus(self, seconds: float) -> Seconds:
        """Add seconds that are known for certain."""
        return self._mapped(1.0, seconds)

    def scaled(self, factor: float) -> Seconds:
        return self._mapped(factor, 0.0)

    def _mapped(self, factor: float, shift: float) -> Seconds:
        low, high = self.low, self.high
        return Seconds(
            value=self.value * factor + shift,
            low=None if low is None else low * factor + shift,
            high=None if high is None else high * factor + shift,
            over_processes=self.over_processes,
        )


def about(value: float) -> Seconds:
    """Return a figure of which no interval is known."""
    return Seconds(value=value, low=None, high=None, over_processes=False)


def ms(seconds: float) -> str:
    """Write it for a sentence: `12.3 ms`, and whole milliseconds from a second on."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{1e3 * seconds:.0f} ms"


def step_times(result: Result) -> list[float]:
    """Return the step time of each repeat, seconds."""
    return [items_per_step(result) / value for value in result.repeats]


def step_s(result: Result) -> Seconds:
    """Return the mean step time over processes, with the interval that other commands show."""
    times = step_times(result)
    if len(times) > 1:
        low, high = welch.interval(times)
        return Seconds(value=statistics.fmean(times), low=low, high=high, over_processes=True)
    return combined([(1, result)])


def combined(terms: Sequence[tuple[float, Result]]) -> Seconds:
    """Sum factor x seconds per step by Welch: `[(1, b), (-1, a)]` is what b takes longer than a."""
    value, variance, weights, over_processes = 0.0, 0.0, 0.0, True
    is_known = True
    for factor, result in terms:
        mean, squared, freedom = _moments(result)
        value += factor * mean
        if squared is None:
            is_known = False
            continue
        variance += factor**2 * squared
        over_processes &= freedom is not None
        weights += (factor**2 * squared) ** 2 / (freedom or math.inf)
    if not is_known:
        return about(value)
    freedom = variance**2 / weights if weights > 0 else math.inf
    if not over_processes:
        freedom = math.inf  # within a process samples are many
    reach = math.exp(log_quantile(max(1.0, freedom))) * math.sqrt(variance)
    return Seconds(
        value=value, low=value - reach, high=value + reach, over_processes=over_processes
    )


def difference(after: Result, before: Result) -> Seconds:
    """Return how many seconds a step of `after` takes longer."""
    return combined([(1, after), (-1, before)])


def _moments(result: Result) -> tuple[float, float | None, float | None]:
    """Return the mean step time, its squared standard error, and the degrees of freedom of that.

    The error is None where nothing is known, the degrees of freedom are None within a single run.
    """
    times = step_times(result)
    if len(times) > 1:
        return statistics.fmean(times), statistics.variance(times) / len(times), len(times) - 1.0
    if result.low is None or result.high is None or result.low <= 0:
        return times[0], None, None
    half = items_per_step(result) * (1 / result.low - 1 / result.high) / 2
    return times[0], (half / math.exp(log_quantile(math.inf))) ** 2, None

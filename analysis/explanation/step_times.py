"""Seconds per step of whole trials, and of their differences, as far as their repeats know them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.results import Result
from scalemark.stats import welch
from scalemark.stats.student import log_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """A figure and its 95 % interval."""

    value: float
    low: float | None  # None where nothing is known of it
    high: float | None
    # the interval is over repeats on every side; else within single processes, and too narrow
    over_processes: bool

    @property
    def told(self) -> bool:
        """Whether the interval may decide anything."""
        return self.over_processes and self.low is not None

    def plus(self, seconds: float) -> Seconds:
        """With so many more, of which nothing is uncertain."""
        low, high = (None if bound is None else bound + seconds for bound in (self.low, self.high))
        return Seconds(
            value=self.value + seconds, low=low, high=high, over_processes=self.over_processes
        )

    def scaled(self, factor: float) -> Seconds:
        low, high = (None if bound is None else bound * factor for bound in (self.low, self.high))
        return Seconds(
            value=self.value * factor, low=low, high=high, over_processes=self.over_processes
        )


def global_images(result: Result) -> int:
    """Of one step, all replicas together."""
    return int(result.axes["batch_size"] or 0) * result.num_gpus


def step_times(result: Result) -> list[float]:
    """Of each repeat, seconds."""
    return [global_images(result) / value for value in result.repeats]


def step_s(result: Result) -> Seconds:
    """Of a result that has a number: its mean over processes, with the interval of logarithms that
    other commands tell.
    """
    times = step_times(result)
    if len(times) > 1:
        low, high = welch.interval(times)
        return Seconds(value=statistics.fmean(times), low=low, high=high, over_processes=True)
    mean, variance, freedom = _of(result)
    return _seconds(mean, variance, freedom)


def combined(terms: Sequence[tuple[float, Result]]) -> Seconds:
    """The sum of factor x seconds per step, by Welch: of `[(1, b), (-1, a)]` what b takes longer
    than a.
    """
    value, variance, weights, over_processes = 0.0, 0.0, 0.0, True
    known = True
    for factor, result in terms:
        mean, squared, freedom = _of(result)
        value += factor * mean
        if squared is None:
            known = False
            continue
        variance += factor**2 * squared
        over_processes &= freedom is not None
        weights += (factor**2 * squared) ** 2 / (freedom or math.inf)
    freedom = variance**2 / weights if weights > 0 else math.inf
    return _seconds(value, variance if known else None, freedom if over_processes else None)


def difference(after: Result, before: Result) -> Seconds:
    """How many seconds a step of `after` takes longer."""
    return combined([(1, after), (-1, before)])


def _of(result: Result) -> tuple[float, float | None, float | None]:
    """Mean; its squared standard error, None where not known; degrees of freedom, None within one
    process.
    """
    times = step_times(result)
    if len(times) > 1:
        return statistics.fmean(times), statistics.variance(times) / len(times), len(times) - 1.0
    if result.low is None or result.high is None or result.low <= 0:
        return times[0], None, None
    half = global_images(result) * (1 / result.low - 1 / result.high) / 2
    return times[0], (half / math.exp(log_quantile(math.inf))) ** 2, None


def _seconds(value: float, variance: float | None, freedom: float | None) -> Seconds:
    if variance is None:
        return Seconds(value=value, low=None, high=None, over_processes=False)
    reach = math.exp(log_quantile(max(1.0, freedom or math.inf))) * math.sqrt(variance)
    return Seconds(
        value=value, low=value - reach, high=value + reach, over_processes=freedom is not None
    )

"""Results as points of a curve, and the words for those without a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from analysis.results import Result
from plots.tables.cells import SYMBOLS
from scalemark.records.outcomes import Outcome

PARTLY = "†"
"""Beside a number that some repeats brought, and others did not."""

_MOST_NAMED = 3  # trials


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One trial that completed."""

    at: int  # GPU count, or whatever lies along the x axis
    value: float
    low: float | None = None  # 95 % CI
    high: float | None = None
    is_valid: bool
    is_whole: bool  # every repeat brought a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One trial without a number."""

    at: int  # as of points
    symbol: str  # as "OOM"


def points(results: Iterable[Result], along: str = "num_gpus") -> tuple[Point, ...]:
    """Return the throughputs of those that have one, at their value of this axis."""
    found = []
    for result in results:
        if result.throughput is not None:
            point = Point(
                at=result.axes[along],
                value=result.throughput,
                low=result.low,
                high=result.high,
                is_valid=result.is_valid,
                is_whole=not result.failed,
            )
            found.append(point)
    return tuple(found)


def failures(results: Iterable[Result], along: str = "num_gpus") -> tuple[Failure, ...]:
    """Return those that have no throughput."""
    failed = [result for result in results if result.throughput is None]
    return tuple(Failure(at=result.axes[along], symbol=symbol(result)) for result in failed)


def symbol(result: Result) -> str:
    """Return the word for a result without a number."""
    return SYMBOLS[Outcome(result.outcome)]


def partly_marked(results: Iterable[Result]) -> list[str]:
    """Return what the mark in a cell means, where there is one."""
    found = [result for result in results if result.failed and result.throughput is not None]
    return [f"{PARTLY}: failures"] if found else []


def partly_failed(results: Iterable[Result]) -> list[str]:
    """Return a line where some repeats brought no number, as `some repeats brought no number:
    ps_cpu x 4 (1 of 3: OOM)`.
    """
    found = [result for result in results if result.failed and result.throughput is not None]
    if not found:
        return []
    trials = [_missing(result) for result in found[:_MOST_NAMED]]
    if found[_MOST_NAMED:]:
        trials.append(f"and {len(found) - _MOST_NAMED} more")
    return [f"some repeats brought no number: {', '.join(trials)}"]


def _missing(result: Result) -> str:
    words = []
    for outcome, num in Counter(result.failed).items():
        name = SYMBOLS[Outcome(outcome)]
        words.append(name if num == 1 else f"{num} {name}")
    num_failed, num_repeats = len(result.failed), len(result.repeats) + len(result.failed)
    return f"{result.strategy} x {result.width} ({num_failed} of {num_repeats}: {', '.join(words)})"

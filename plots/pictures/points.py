"""Results as points of a curve, what stands where there is no number, and what is said where only
some repeats brought one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from analysis.results import Result
from plots.tables.layout import SYMBOLS
from scalemark.records.outcomes import Outcome

PARTLY = "†"
"""Beside a number that some repeats brought, and others did not."""

_MOST_NAMED = 3  # trials in a footer


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One trial that completed."""

    at: int  # GPU count, or whatever lies along the x axis
    value: float
    low: float | None  # 95 % interval
    high: float | None
    is_valid: bool
    is_whole: bool  # every repeat brought a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One trial without a number."""

    at: int  # as of points
    symbol: str  # as "OOM"


def points(results: Iterable[Result], along: str = "num_gpus") -> tuple[Point, ...]:
    """Images/s of those that have a number, at their value of this axis."""
    return tuple(
        Point(
            at=of.axes[along],
            value=of.throughput,
            low=of.low,
            high=of.high,
            is_valid=of.is_valid,
            is_whole=not of.failed,
        )
        for of in results
        if of.throughput is not None
    )


def failures(results: Iterable[Result], along: str = "num_gpus") -> tuple[Failure, ...]:
    """Those that have none."""
    return tuple(
        Failure(at=of.axes[along], symbol=symbol(of)) for of in results if of.throughput is None
    )


def symbol(result: Result) -> str:
    """What stands for a result without a number."""
    return SYMBOLS[Outcome(result.outcome)]


def partly_failed(results: Iterable[Result], mark: str = "") -> list[str]:
    """For the footer, as `ringed: some repeats brought no number: ps_cpu x 4 (1 of 3: OOM)`; none
    where all brought one.
    """
    found = [of for of in results if of.failed and of.throughput is not None]
    if not found:
        return []
    told = [_missing(of) for of in found[:_MOST_NAMED]]
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return [
        f"{f'{mark}: ' if mark else ''}some repeats brought no number: {', '.join([*told, *more])}"
    ]


def _missing(result: Result) -> str:
    symbols = Counter(SYMBOLS[Outcome(outcome)] for outcome in result.failed)
    told = ", ".join(name if num == 1 else f"{num} {name}" for name, num in symbols.items())
    return (
        f"{result.strategy} x {result.width} ({len(result.failed)} of "
        f"{len(result.repeats) + len(result.failed)}: {told})"
    )

"""The axes that tables of results can have."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results import Result
from analysis.results import axes_of as results_axes_of
from scalemark.records.free_axes import full_name
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES
from store.errors import StoreError
from store.filters.selection import nearest


def axes_of(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the axes that can distinguish results."""
    if not results or results[0].environment.origin.is_ours:
        return results_axes_of(results)
    names = dict.fromkeys(name for result in results for name in result.axes)
    if results[0].environment.origin is Origin.ELSEWHERE:  # what no row says is no axis of it
        names = dict.fromkeys(name for name in names if _is_said(name, results))
    return tuple(names)


def _is_said(axis: str, results: Sequence[Result]) -> bool:
    return axis == "strategy" or any(
        result.axes.get(axis) not in (None, "", "?") for result in results
    )


def full_names(results: Sequence[Result], axes: Sequence[str]) -> tuple[str, ...]:
    """Return the axes, free ones that are named without their prefix with it."""
    known = axes_of(results)
    return tuple(full_name(axis, known) for axis in axes)


class NoSuchAxisError(StoreError):
    """None of the results reports an axis."""

    def __init__(self, axis: str, known: Sequence[str]) -> None:
        super().__init__(f"{axis}: no such axis; {nearest(axis, known)}")
        self.axis = axis


def check(results: Sequence[Result], rows_by: Sequence[str], columns_by: Sequence[str]) -> None:
    known = axes_of(results)
    for axis in (*rows_by, *columns_by):
        if axis not in known:
            raise NoSuchAxisError(axis[:100], known)
        if (*rows_by, *columns_by).count(axis) > 1:
            raise StoreError(f"{axis}: wanted down or across, once")


def axes_by_strategy(results: Sequence[Result], pivoted: set[str]) -> list[str]:
    """Return these with the strategy by its name, unless a part of it is pivoted."""
    parts = set(STRATEGY_AXES)
    for result in results:
        parts.update(result.strategy_axes)
    left_out = ("strategy",) if pivoted & parts else STRATEGY_AXES
    return [axis for axis in axes_of(results) if axis not in left_out]

"""Labels of rows, columns and lines: which axes they have, what they say, and their order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from analysis.results import Result, global_batch, keeps_micro_batches, micro_batches
from analysis.results import axes_of as results_axes_of
from scalemark.records.free_axes import full_name, is_env_variable
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES, strategy_of_free_axes
from scalemark.text.wording import SortKey, natural
from store.errors import StoreError
from store.filters import nearest


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


Label = tuple[Any, ...]
"""The values of the axes of a row or a column."""


def lines(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the axes of a line or a row: strategies, and where they differ, numbers of hosts."""
    return ("strategy", "hosts") if len({result.hosts for result in results}) > 1 else ("strategy",)


def variables_apart(results: Sequence[Result], pivoted: Collection[str]) -> set[str]:
    """Return the environment variables that get a table for each value, though strategies of
    programs name them as free axes: those that differ where strategies name other axes, too.
    """
    programs = [result for result in results if result.is_of_program]
    free = {axis for program in programs for axis in program.strategy_axes if axis not in pivoted}
    variables = {axis for axis in free if is_env_variable(axis)}
    if variables == free:
        return set()
    return {axis for axis in variables if len({program.free.get(axis) for program in programs}) > 1}


def labels_of(
    results: Sequence[Result], axes: Sequence[str], pivoted: Collection[str] = ()
) -> list[Label]:
    """Return each result's label; the global batch of strong scaling is its batch, and a source's
    micro-batches are those of all GPUs.

    With `num_gpus` among the axes they need not be. A strategy does not repeat the free axes that
    are `pivoted`: down, across and in the title they are labels of their own.
    """
    has_batch = "batch_size" in axes and "num_gpus" not in axes
    has_micro = "gradient_accumulation" in axes and "num_gpus" not in axes
    labels = []
    for result in results:
        values = [result.hosts if axis == "hosts" else result.axes.get(axis) for axis in axes]
        if "strategy" in axes and result.is_of_program:
            values[axes.index("strategy")] = _strategy_beside(result, pivoted)
        if has_batch and result.axes.get("scaling") == "strong":
            values[axes.index("batch_size")] = global_batch(result)
        if has_micro and keeps_micro_batches(result):
            values[axes.index("gradient_accumulation")] = micro_batches(result)
        labels.append(tuple(values))
    return labels


def _strategy_beside(result: Result, pivoted: Collection[str]) -> str:
    """Name the free axes of a program that its strategy stands for, without those pivoted."""
    own = result.strategy_axes
    others = [axis for axis in own if axis not in pivoted]
    if own and len(others) == len(own):
        return result.strategy
    return strategy_of_free_axes(result.axes, others) or str(result.axes["model"])


def ordered(labels: Sequence[Label], axes: Sequence[str], origin: Origin) -> tuple[Label, ...]:
    """Sort numbers by size and texts by alphabet, with the numbers in them by size; models, and all
    texts of published figures, as they appear.
    """
    places: dict[object, float] = {}
    for value in (value for label in labels for value in label):
        places.setdefault(value, float(len(places)))
    key = partial(_naturally, axes, places) if origin.is_ours else partial(_by_place, places)
    return tuple(sorted(dict.fromkeys(labels), key=key))


def _by_place(places: Mapping[object, float], label: Label) -> list[tuple[int, float]]:
    return [
        (0, float(value)) if isinstance(value, int | float) else (1, places[value])
        for value in label
    ]


def sortable(label: Label) -> list[tuple[int, float, str]]:
    """Numbers by size before texts by alphabet."""
    return [
        (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))
        for value in label
    ]


def _naturally(
    axes: Sequence[str], places: Mapping[object, float], label: Label
) -> list[tuple[int, float, SortKey]]:
    """Return as `sortable` does, with the numbers in texts by their size, and models by place."""
    keys: list[tuple[int, float, SortKey]] = []
    for axis, (kind, value, text) in zip(axes, sortable(label), strict=True):
        is_model = axis == "model"
        keys.append((kind, places[text], ()) if is_model else (kind, value, natural(text)))
    return keys

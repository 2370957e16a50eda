"""Labels of rows, columns and lines: which axes they have, what they say, and their order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from analysis.results import Result, global_batch, keeps_micro_batches, micro_batches
from scalemark.records.free_axes import is_env_variable
from scalemark.records.references import Origin
from scalemark.records.trial import strategy_of_free_axes
from scalemark.text.wording import SortKey, natural

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

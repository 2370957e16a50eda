"""Labels of rows, columns and lines: which axes they have, what they say, and their order."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from analysis.results import Result, global_batch, keeps_micro_batches, micro_batches
from analysis.results import axes_of as results_axes_of
from scalemark.records.axes import full_name, is_env_variable
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_AXES, strategy_of_free_axes
from scalemark.text.wording import SortKey, natural
from store.errors import StoreError
from store.filters import nearest

FOLLOWERS = {
    "precision": ("loss_scale", "data_format"),
    "optimizer": ("learning_rate", "momentum", "weight_decay"),
    "data": ("data_dir", "distortions", "cache"),
}
"""Axes that `auto` derives from another one."""


def axes_of(results: Sequence[Result]) -> tuple[str, ...]:
    """Return the axes that can distinguish results."""
    if not results or results[0].environment.origin.is_ours:
        return results_axes_of(results)
    is_of_tables = results[0].environment.origin is Origin.ELSEWHERE
    names: dict[str, None] = {}
    for result in results:
        for name, value in result.axes.items():
            # what no row of a table says is no axis of it
            if not is_of_tables or name == "strategy" or value not in (None, "", "?"):
                names[name] = None
    return tuple(names)


def full_names(results: Sequence[Result], axes: Sequence[str]) -> tuple[str, ...]:
    """Return the axes, free ones that are named without their prefix with it."""
    known = axes_of(results)
    return tuple(full_name(axis, known) for axis in axes)


class NoSuchAxisError(StoreError):
    """None of the results reports an axis."""

    def __init__(self, axis: str, known: Sequence[str], varied: Sequence[str]) -> None:
        super().__init__(f"{axis}: no such axis; {nearest(axis, known, varied)}")
        self.axis = axis


def check(results: Sequence[Result], rows_by: Sequence[str], columns_by: Sequence[str]) -> None:
    known = axes_of(results)
    for axis in (*rows_by, *columns_by):
        if axis not in known:
            varied = []
            for name in known:
                if len({str(result.axes.get(name)) for result in results}) > 1:
                    varied.append(name)
            raise NoSuchAxisError(axis[:100], known, varied)
        if (*rows_by, *columns_by).count(axis) > 1:
            raise StoreError(f"{axis}: wanted down or across, once")


def axes_by_strategy(
    axes: Sequence[str], results: Sequence[Result], pivoted: set[str]
) -> list[str]:
    """Return the axes with the strategy by its name, unless a part of it is pivoted."""
    parts = set(STRATEGY_AXES).union(*{result.strategy_axes for result in results})
    left_out = ("strategy",) if pivoted & parts else STRATEGY_AXES
    return [axis for axis in axes if axis not in left_out]


def varying(results: Sequence[Result], axes: Sequence[str]) -> list[str]:
    """Return the axes whose labels may differ between these results: of 40 axes most are
    alike, and labels of thousands of results then are short.
    """
    free: set[str] = set()
    for result in results:
        if result.is_named_by_free_axes:  # labels leave out what a strategy names
            free.update(result.strategy_axes)
    different = []
    # row by row, since memory holds the axes of a trial beside each other
    rows = [tuple(map(result.axes.get, axes)) for result in results]
    for axis, values in zip(axes, zip(*rows, strict=True), strict=True):
        is_constant = values.count(values[0]) == len(values) and len(set(map(type, values))) == 1
        if not is_constant or axis in free or axis in _OF_OTHER_AXES:
            different.append(axis)
    return different


_OF_OTHER_AXES = ("strategy", "batch_size", "gradient_accumulation")  # see `labels_of`

Label = tuple[Any, ...]
"""The values of the axes of a row or a column."""


def lines(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the axes of a line or a row: strategies, and where they differ, numbers of hosts."""
    if len({result.hosts for result in results}) > 1:
        return "strategy", "hosts"
    return ("strategy",)


def variables_apart(results: Sequence[Result], pivoted: Collection[str]) -> set[str]:
    """Return the environment variables that get a table for each value, though strategies of
    programs name them as free axes: those that differ where strategies name other axes, too.
    """
    programs = [result for result in results if result.is_of_program]
    free: set[str] = set()
    for program in programs:
        free.update(program.strategy_axes)
    free.difference_update(pivoted)
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
    if not axes:
        return [()] * len(results)
    columns = [_column(results, axis, pivoted, "num_gpus" in axes) for axis in axes]
    return list(zip(*columns, strict=True))


def _column(
    results: Sequence[Result], axis: str, pivoted: Collection[str], has_num_gpus: bool
) -> list[Any]:
    """Return the value of one axis in each result's label."""
    if axis == "hosts":
        return [result.hosts for result in results]
    values = [result.axes.get(axis) for result in results]
    if axis == "strategy":
        for place, result in enumerate(results):
            own = result.strategy_axes if result.is_of_program else ()
            others = [name for name in own if name not in pivoted]
            if result.is_of_program and (not own or len(others) < len(own)):
                beside = strategy_of_free_axes(result.axes, others)
                values[place] = beside or str(result.axes["model"])
    elif axis == "batch_size" and not has_num_gpus:
        for place, result in enumerate(results):
            if result.axes.get("scaling") == "strong":
                values[place] = global_batch(result)
    elif axis == "gradient_accumulation" and not has_num_gpus:
        for place, result in enumerate(results):
            if keeps_micro_batches(result):
                values[place] = micro_batches(result)
    return values


def ordered(labels: Sequence[Label], axes: Sequence[str], origin: Origin) -> tuple[Label, ...]:
    """Sort numbers by size and texts by alphabet, with the numbers in them by size; models, and all
    texts of published figures, as they appear.
    """
    places: dict[object, float] = {}
    for label in labels:
        for value in label:
            places.setdefault(value, float(len(places)))

    def key(label: Label) -> list[tuple[int, float, SortKey]]:
        keys: list[tuple[int, float, SortKey]] = []
        for axis, value in zip(axes, label, strict=True):
            if isinstance(value, int | float):
                keys.append((0, float(value), ()))
            elif axis == "model" or not origin.is_ours:
                keys.append((1, places[value], ()))
            else:
                keys.append((1, 0.0, natural(str(value))))
        return keys

    return tuple(sorted(dict.fromkeys(labels), key=key))

"""Tables of results: any axes down, any axes across, and a table for each value of the others."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from analysis.results import (
    Environment,
    Origin,
    Result,
    global_batch,
    keeps_micro_batches,
    micro_batches,
)
from analysis.results import axes_of as results_axes_of
from scalemark.records.environment_axes import is_variable
from scalemark.records.free_axes import full_name
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import PROGRAM_AXES, strategy_of_free_axes, unusual_axes
from scalemark.stats.welch import Relation, relation
from scalemark.text.natural import SortKey, natural
from store.errors import StoreError
from store.filters.selection import nearest

_ALWAYS_NAMED = ("model", "batch_size", "image_px", "precision", "data", "scaling")
_SHARED = "shares_host"  # not an axis, but shown in titles like one
# other work, no better choice: never ranked along
_SIZES = frozenset({"num_gpus", "model", "model_digest", "image_px", "seq_len", "num_classes"})

# what each model has its own of
_OF_OUR_MODEL = (
    *("model_digest", "batch_size", "image_px", "seq_len", "num_classes"),
    *("learning_rate", "weight_decay"),
)
_OF_A_PUBLISHED_MODEL = ("batch_size", "strategy", *STRATEGY_AXES)

Label = tuple[Any, ...]
"""The values of the axes of a row or a column."""


class Rank(StrEnum):
    """The place of a number among those it competes with.

    They are those of its column, or of its row where the rows differ in model or GPUs; of either
    those over as many hosts.
    """

    BEST = "best"
    TIE = "tie"  # the 95 % CI of the best one's ratio to it contains 1
    UNKNOWN = "unknown"  # one of the two is a single run
    OUT = "out"  # either of these, but a race has put it out, and its repeats are few for that
    SLOWER = "slower"
    ALONE = "alone"  # without competition


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A result in its table."""

    result: Result
    rank: Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Results of one environment that differ in nothing but the axes down and across."""

    rows_by: tuple[str, ...]  # axes
    columns_by: tuple[str, ...]
    # the other axes worth naming: they tell this table from its neighbors
    setting: Mapping[str, object]
    environment: Environment
    rows: tuple[Label, ...]
    columns: tuple[Label, ...]
    cells: Mapping[tuple[Label, Label], Cell]  # by row and column; what is missing was not run
    # where models are down or across: the axes that vary with them, by model
    of_models: Mapping[str, Mapping[str, object]]

    @property
    def results(self) -> list[Result]:
        return [cell.result for cell in self.cells.values()]

    @property
    def unit(self) -> str:
        """Return the one unit of all throughputs in it, as `images/s`."""
        able = [result for result in self.results if result.throughput is not None]
        return (able or self.results)[0].unit

    @property
    def hosts(self) -> int:
        """The number of hosts of all of its results; 1 where labels say it of each."""
        found = {result.hosts for result in self.results}
        return found.pop() if len(found) == 1 else 1

    def counted(self, num_gpus: int) -> str:
        """Return `8 GPUs`, or `8 GPUs over 2 hosts`."""
        return self.environment.counted(num_gpus, self.hosts)


def usual_tables(results: Sequence[Result]) -> list[Table]:
    """Return published figures as in their articles, and ours with strategies down and GPUs across.

    Where there are several numbers of hosts, each strategy has a row for each.
    """
    origin = results[0].environment.origin
    if origin is Origin.PUBLISHED:
        return article_tables(results)
    if origin is Origin.ELSEWHERE:  # each table says what it does
        return [table for of in _by_environment(results) for table in pivot(of, lines(of))]
    return pivot(results, lines(results))


def article_tables(results: Sequence[Result]) -> list[Table]:
    """Return published figures in the form of their articles.

    GPUs are down and models across where a model ran one way at each batch size; else there is a
    table per model, strategies down and GPUs across.
    """
    grouped: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.environment.key, result.axes["data"], result.axes["precision"]].append(
            result
        )
    found = []
    for of in grouped.values():
        curves = {(result.axes["model"], result.axes["batch_size"], result.curve) for result in of}
        settings = {(model, batch_size) for model, batch_size, _ in curves}
        one_way = len(curves) == len(settings) and len({model for model, _ in settings}) > 1
        found += pivot(of, ("num_gpus",), ("model",)) if one_way else pivot(of)
    return found


def pivot(
    results: Sequence[Result],
    rows_by: Sequence[str] = ("strategy",),
    columns_by: Sequence[str] = ("num_gpus",),
) -> list[Table]:
    """Return tables in the order of their first results.

    Texts of published figures are down and across in their order of appearance. Raises StoreError
    for unknown axes.
    """
    rows_by, columns_by = (_full_names(results, axes) for axes in (rows_by, columns_by))
    _check(results, rows_by, columns_by)
    if not results:
        return []
    if results[0].environment.origin is Origin.ELSEWHERE:
        by_environment = _by_environment(results)
        if len(by_environment) > 1:  # what one of them does not say is no axis of it
            return [table for of in by_environment for table in _pivot(of, rows_by, columns_by)]
    return _pivot(results, rows_by, columns_by)


def _by_environment(results: Sequence[Result]) -> list[list[Result]]:
    grouped: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.environment.key].append(result)
    return list(grouped.values())


def _pivot(
    results: Sequence[Result], rows_by: Sequence[str], columns_by: Sequence[str]
) -> list[Table]:
    pivoted = {*rows_by, *columns_by}
    others = [axis for axis in _axes(results, pivoted) if axis not in pivoted]
    by_strategy = "strategy" in pivoted or "strategy" in others
    own = _OF_OUR_MODEL if results[0].environment.origin.is_ours else _OF_A_PUBLISHED_MODEL
    of_model = [axis for axis in others if axis in own] if "model" in pivoted else []
    rest = [axis for axis in others if axis not in of_model]
    apart = _variables_apart(results, pivoted)
    cells = _values(results, (*rows_by, *columns_by), pivoted | apart)
    variants = _variants(results, rest, of_model)
    of_rest = _values(results, rest)
    named_axes = {axis for result in results for axis in result.named_axes}
    if by_strategy:
        of_rest = [_beside(one, rest, of, apart) for one, of in zip(results, of_rest, strict=True)]
    grouped: dict[Label, list[Result]] = defaultdict(list)
    settings: dict[Label, dict[str, object]] = {}
    num_in: Counter[Label] = Counter()
    for result, item, cell, variant, values in zip(
        results, _items(results), cells, variants, of_rest, strict=True
    ):
        where = (result.environment.key, item, variant, *values)
        # a source may report one thing twice: the second is in a table of its own
        num_in[where, cell] += 1
        key = (num_in[where, cell], *where)
        grouped[key].append(result)
        settings[key] = _setting(result, rest, values, named_axes, apart)
        settings[key][_SHARED] = result.environment.shares_host
    named = _named(settings.values())
    found = []
    for key, of in grouped.items():
        setting = settings[key]
        shown = {axis: setting[axis] for axis in named[setting.get("model")] if axis in setting}
        found.append(table(of, rows_by, columns_by, shown, of_model))
    return _in_order_of_free_axes(found)


def _in_order_of_free_axes(tables: Sequence[Table]) -> list[Table]:
    """Sort tables of one program, which differ in free axes, by these; all others stay where they
    are.
    """
    places: dict[object, int] = {}
    keys = []
    for number, one in enumerate(tables):
        own: object = number
        first, words = one.results[0], ""
        if first.is_of_program:
            own = (one.environment.key, first.axes["model"], first.axes["command"])
            words = " ".join(f"{axis}={value}" for axis, value in one.setting.items())
        keys.append((places.setdefault(own, len(places)), natural(words)))
    order = sorted(range(len(tables)), key=keys.__getitem__)
    return [tables[place] for place in order]


def _variables_apart(results: Sequence[Result], pivoted: Collection[str]) -> set[str]:
    """Return the environment variables that get a table for each value, though strategies of
    programs name them as free axes: those that differ where strategies name other axes, too.
    """
    programs = [result for result in results if result.is_of_program]
    free = {axis for one in programs for axis in one.strategy_axes if axis not in pivoted}
    variables = {axis for axis in free if is_variable(axis)}
    if variables == free:
        return set()
    return {axis for axis in variables if len({one.free.get(axis) for one in programs}) > 1}


def _beside(result: Result, axes: Sequence[str], values: Label, apart: Collection[str]) -> Label:
    """Return the values without those that the strategy stands for, where it names free axes."""
    if not result.is_named_by_free_axes:
        return values
    names = {axis for axis in result.strategy_axes if axis not in apart}
    return tuple(None if axis in names else value for axis, value in zip(axes, values, strict=True))


def _setting(
    result: Result,
    axes: Sequence[str],
    values: Label,
    by_name: Collection[str],
    apart: Collection[str],
) -> dict[str, object]:
    """Return the axes with their values; a trial of ours does not have those that it lacks, and of
    others the strategy names those `by_name`. A variable that it lacks is inherited.
    """
    found = dict(zip(axes, values, strict=True))
    if not result.environment.origin.is_ours:
        return {
            axis: value for axis, value in found.items() if value is not None or axis not in by_name
        }
    named = {}
    for axis, value in found.items():
        is_inherited = is_variable(axis) and (axis in apart or axis not in result.strategy_axes)
        if (value is not None or is_inherited) and (value != "" or axis not in PROGRAM_AXES):
            named[axis] = value
    return named


def _items(results: Sequence[Result]) -> list[str]:
    """Return what each result counts; one without a number counts what its model counted elsewhere,
    so that failures stand beside the numbers that they are missing from.
    """
    by_model = {}
    for result in results:
        if result.throughput is not None:
            by_model[result.environment.key, result.axes["model"]] = result.item
    found = []
    for result in results:
        if result.throughput is None:
            found.append(by_model.get((result.environment.key, result.axes["model"]), result.item))
        else:
            found.append(result.item)
    return found


def lines(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the axes of a line or a row: strategies, and where they differ, numbers of hosts."""
    return ("strategy", "hosts") if len({result.hosts for result in results}) > 1 else ("strategy",)


def with_variables(axes: Sequence[str], results: Sequence[Result]) -> tuple[str, ...]:
    """Return the axes of a line in charts, where the values of a variable stand side by side, too:
    those in which trials differ.
    """
    found = [result.variables for result in results]
    names = {name for one in found for name in one}
    differing = {name for name in names if len({one.get(name) for one in found}) > 1}
    return (*axes, *sorted(differing | _variables_apart(results, axes)))


def by_hosts(of: Table) -> list[Table]:
    """Split a table of several numbers of hosts into one for each."""
    if "hosts" not in (*of.rows_by, *of.columns_by):
        return [of]
    grouped: dict[int, list[Result]] = defaultdict(list)
    for result in of.results:
        grouped[result.hosts].append(result)
    axes_of_models = tuple(next(iter(of.of_models.values()), {}))
    rows_by = [axis for axis in of.rows_by if axis != "hosts"]
    columns_by = [axis for axis in of.columns_by if axis != "hosts"]
    return [
        table(grouped[hosts], rows_by, columns_by, {**of.setting, "hosts": hosts}, axes_of_models)
        for hosts in sorted(grouped)
    ]


def _variants(results: Sequence[Result], rest: Sequence[str], of_model: Sequence[str]) -> list[int]:
    """Number each model's settings: 0 is the largest batch, as in an article's first table."""
    if not of_model:
        return [0] * len(results)
    settings = _values(results, of_model)
    keys = [
        (result.environment.key, result.axes["model"], *values)
        for result, values in zip(results, _values(results, rest), strict=True)
    ]
    found: dict[Label, set[Label]] = defaultdict(set)
    for key, setting in zip(keys, settings, strict=True):
        found[key].add(setting)
    largest_first = {key: sorted(of, key=_sortable, reverse=True) for key, of in found.items()}
    return [largest_first[key].index(setting) for key, setting in zip(keys, settings, strict=True)]


def table(
    results: Sequence[Result],
    rows_by: Sequence[str],
    columns_by: Sequence[str],
    setting: Mapping[str, object],
    of_model: Sequence[str] = (),
) -> Table:
    """Make a table of results of one environment, no two of which have the same row and column.

    `of_model` are the axes that vary with the model.
    """
    pivoted = {*rows_by, *columns_by, *setting}
    rows, columns = _values(results, rows_by, pivoted), _values(results, columns_by, pivoted)
    placed = dict(zip(zip(rows, columns, strict=True), results, strict=True))
    along_row = bool(_SIZES.intersection(rows_by)) or tuple(rows_by) == ("hosts",)
    can_compete = not (along_row and _SIZES.intersection(columns_by))
    competing: dict[tuple[Label, int], list[Result]] = defaultdict(list)
    for (row, column), result in placed.items():
        competing[row if along_row else column, result.hosts].append(result)
    best = {label: _best(of) for label, of in competing.items() if can_compete}
    cells = {}
    for (row, column), result in placed.items():
        leader = best.get((row if along_row else column, result.hosts))
        cells[row, column] = Cell(result=result, rank=_rank(result, leader))
    of_models = {}
    if of_model:
        for result, values in zip(results, _values(results, of_model), strict=True):
            of_models[result.axes["model"]] = dict(zip(of_model, values, strict=True))
    environment = results[0].environment
    return Table(
        rows_by=tuple(rows_by),
        columns_by=tuple(columns_by),
        setting=setting,
        environment=environment,
        rows=_ordered(rows, rows_by, environment.origin),
        columns=_ordered(columns, columns_by, environment.origin),
        cells=cells,
        of_models=of_models,
    )


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


def _full_names(results: Sequence[Result], axes: Sequence[str]) -> tuple[str, ...]:
    """Return the axes, free ones that are named without their prefix with it."""
    known = axes_of(results)
    return tuple(full_name(axis, known) for axis in axes)


class NoSuchAxisError(StoreError):
    """None of the results reports an axis."""

    def __init__(self, axis: str, known: Sequence[str]) -> None:
        super().__init__(f"{axis}: no such axis; {nearest(axis, known)}")
        self.axis = axis


def _check(results: Sequence[Result], rows_by: Sequence[str], columns_by: Sequence[str]) -> None:
    known = axes_of(results)
    for axis in (*rows_by, *columns_by):
        if axis not in known:
            raise NoSuchAxisError(axis[:100], known)
        if (*rows_by, *columns_by).count(axis) > 1:
            raise StoreError(f"{axis}: wanted down or across, once")


def _axes(results: Sequence[Result], pivoted: set[str]) -> list[str]:
    """Return these with the strategy by its name, unless a part of it is pivoted."""
    parts = set(STRATEGY_AXES)
    for result in results:
        parts.update(result.strategy_axes)
    left_out = ("strategy",) if pivoted & parts else STRATEGY_AXES
    return [axis for axis in axes_of(results) if axis not in left_out]


def _values(
    results: Sequence[Result], axes: Sequence[str], pivoted: Collection[str] = ()
) -> list[Label]:
    """Return each result's label; the global batch of strong scaling is its batch, and a source's
    micro-batches are those of all GPUs.

    With `num_gpus` among the axes they need not be. A strategy does not repeat the free axes that
    are `pivoted`: down, across and in the title they are labels of their own.
    """
    has_batch = "batch_size" in axes and "num_gpus" not in axes
    has_micro = "gradient_accumulation" in axes and "num_gpus" not in axes
    found = []
    for result in results:
        values = [result.hosts if axis == "hosts" else result.axes.get(axis) for axis in axes]
        if "strategy" in axes and result.is_of_program:
            values[axes.index("strategy")] = _strategy_beside(result, pivoted)
        if has_batch and result.axes.get("scaling") == "strong":
            values[axes.index("batch_size")] = global_batch(result)
        if has_micro and keeps_micro_batches(result):
            values[axes.index("gradient_accumulation")] = micro_batches(result)
        found.append(tuple(values))
    return found


def _strategy_beside(result: Result, pivoted: Collection[str]) -> str:
    """Name the free axes of a program that its strategy stands for, without those pivoted."""
    own = result.strategy_axes
    others = [axis for axis in own if axis not in pivoted]
    if own and len(others) == len(own):
        return result.strategy
    return strategy_of_free_axes(result.axes, others) or str(result.axes["model"])


def _named(settings: Iterable[Mapping[str, object]]) -> dict[object, list[str]]:
    """Return by model the axes worth naming: the usual ones, what is unusual somewhere, and what
    differs between its tables.
    """
    by_model: dict[object, list[Mapping[str, object]]] = defaultdict(list)
    for setting in settings:
        by_model[setting.get("model")].append(setting)
    found = {}
    for model, of in by_model.items():
        named = {*_ALWAYS_NAMED}.union(*map(unusual_axes, of))
        if any(setting[_SHARED] for setting in of):
            named.add(_SHARED)
        axes = list(dict.fromkeys(axis for setting in of for axis in setting))
        named |= {axis for axis in axes if len({setting.get(axis) for setting in of}) > 1}
        found[model] = [axis for axis in axes if axis in named]
    return found


def _best(results: Iterable[Result]) -> Result | None:
    """Return the fastest of two or more, of those that train one model where there are such."""
    able = [result for result in results if result.throughput is not None]
    able = [result for result in able if not result.trains_apart] or able
    return max(able, key=lambda result: result.throughput or 0.0) if len(able) > 1 else None


_RANKS = {
    Relation.MORE: Rank.SLOWER,
    Relation.TIE: Rank.TIE,
    Relation.UNKNOWN: Rank.UNKNOWN,
}


def _rank(result: Result, best: Result | None) -> Rank:
    if best is None or result.throughput is None or result.trains_apart > best.trains_apart:
        return Rank.ALONE
    if result is best:
        return Rank.BEST
    found = _RANKS[relation(best.repeats, result.repeats)]
    return Rank.OUT if result.out_of_race and found is not Rank.SLOWER else found


def _ordered(labels: Sequence[Label], axes: Sequence[str], origin: Origin) -> tuple[Label, ...]:
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


def _sortable(label: Label) -> list[tuple[int, float, str]]:
    """Numbers by size before texts by alphabet."""
    return [
        (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))
        for value in label
    ]


def _naturally(
    axes: Sequence[str], places: Mapping[object, float], label: Label
) -> list[tuple[int, float, SortKey]]:
    """Return as `_sortable` does, with the numbers in texts by their size, and models by place."""
    found: list[tuple[int, float, SortKey]] = []
    for axis, (kind, value, text) in zip(axes, _sortable(label), strict=True):
        is_model = axis == "model"
        found.append((kind, places[text], ()) if is_model else (kind, value, natural(text)))
    return found

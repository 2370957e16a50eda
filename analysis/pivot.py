"""Tables of results: any axes down, any axes across, and a table of its own for whatever else
differs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from analysis.results import Origin, Place, Result, global_batch
from analysis.results import axes_of as results_axes_of
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import unusual_axes
from scalemark.stats.welch import Relation, relation
from store.errors import StoreError
from store.filters.selection import nearest

_ALWAYS_NAMED = ("model", "batch_size", "image_px", "precision", "data", "scaling")
_SHARED = "shares_host"  # not an axis, but told in titles like one
# other work, no better choice: never ranked along
_SIZES = frozenset({"num_gpus", "model", "image_px", "num_classes"})

# what each model has its own of
_OF_OUR_MODEL = ("batch_size", "image_px", "num_classes", "learning_rate", "weight_decay")
_OF_A_PUBLISHED_MODEL = ("batch_size", "strategy", *STRATEGY_AXES)

Label = tuple[Any, ...]
"""Values of the axes of a row or a column."""


class Rank(StrEnum):
    """Where a number stands among those it competes with: its column, or its row where the rows
    differ in model or GPUs; of either those over as many hosts.
    """

    BEST = "best"
    TIE = "tie"  # the 95 % interval of the best one's ratio to it reaches 1
    # one of the two is one process alone: nobody knows what another would bring
    UNKNOWN = "unknown"
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
    """Results of one place that differ in nothing but the axes down and across."""

    rows_by: tuple[str, ...]  # axes
    columns_by: tuple[str, ...]
    # the other axes worth naming: they tell this table from its neighbors
    setting: Mapping[str, object]
    place: Place
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
        """Over how many all of its results are; 1 where they are over different numbers, each told
        in its label.
        """
        found = {result.hosts for result in self.results}
        return found.pop() if len(found) == 1 else 1

    def counted(self, num_gpus: int) -> str:
        """As `8 GPUs`, `8 GPUs over 2 hosts`."""
        return self.place.counted(num_gpus, self.hosts)


def usual_tables(results: Sequence[Result]) -> list[Table]:
    """Return published figures as in their articles, and ours with strategies down and GPUs across.
    Where there are several numbers of hosts, each strategy has a row for each.
    """
    if results[0].place.origin is Origin.PUBLISHED:
        return article_tables(results)
    return pivot(results, lines(results))


def article_tables(results: Sequence[Result]) -> list[Table]:
    """Published figures in the form of their articles: GPUs down and models across where a model
    ran one way at each batch size; else a table per model, strategies down and GPUs across.
    """
    grouped: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        grouped[result.place.key, result.axes["data"], result.axes["precision"]].append(result)
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
    """Tables in the order of their first results; of published figures, texts down and across in
    their order of appearance.

    Raises StoreError for axes that are none.
    """
    _check(results, rows_by, columns_by)
    if not results:
        return []
    pivoted = {*rows_by, *columns_by}
    others = [axis for axis in _axes(results, pivoted) if axis not in pivoted]
    own = _OF_OUR_MODEL if results[0].place.origin.is_ours else _OF_A_PUBLISHED_MODEL
    of_model = [axis for axis in others if axis in own] if "model" in pivoted else []
    rest = [axis for axis in others if axis not in of_model]
    grouped: dict[Label, list[Result]] = defaultdict(list)
    cells = zip(
        _values(results, (*rows_by, *columns_by)),
        _variants(results, rest, of_model),
        _values(results, rest),
        strict=True,
    )
    items = _items(results)
    num_in: Counter[Label] = Counter()
    for result, item, (cell, variant, values) in zip(results, items, cells, strict=True):
        where = (result.place.key, item, variant, *values)
        # a source may tell of one thing twice: the second stands in a table of its own
        num_in[where, cell] += 1
        grouped[num_in[where, cell], *where].append(result)
    settings = {
        key: dict(zip(rest, key[4:], strict=True)) | {_SHARED: of[0].place.shares_host}
        for key, of in grouped.items()
    }
    named = _named(settings)
    return [
        table(
            of,
            rows_by,
            columns_by,
            {axis: settings[key][axis] for axis in named[settings[key].get("model")]},
            of_model,
        )
        for key, of in grouped.items()
    ]


def _items(results: Sequence[Result]) -> list[str]:
    """Return what each result counts; one without a number counts what its model counted elsewhere,
    so that failures stand beside the numbers that they are missing from.
    """
    by_model = {}
    for result in results:
        if result.throughput is not None:
            by_model[result.place.key, result.axes["model"]] = result.item
    found = []
    for result in results:
        if result.throughput is None:
            found.append(by_model.get((result.place.key, result.axes["model"]), result.item))
        else:
            found.append(result.item)
    return found


def lines(results: Iterable[Result]) -> tuple[str, ...]:
    """Axes whose values make a line of a chart and a row of a table: strategies, and where they
    differ, numbers of hosts.
    """
    return ("strategy", "hosts") if len({result.hosts for result in results}) > 1 else ("strategy",)


def by_hosts(of: Table) -> list[Table]:
    """A table of several numbers of hosts as one for each number; another table alone."""
    if "hosts" not in (*of.rows_by, *of.columns_by):
        return [of]
    grouped: dict[int, list[Result]] = defaultdict(list)
    for result in of.results:
        grouped[result.hosts].append(result)
    axes_of_models = tuple(next(iter(of.of_models.values()), {}))
    rows_by, columns_by = (
        tuple(axis for axis in axes if axis != "hosts") for axes in (of.rows_by, of.columns_by)
    )
    return [
        table(grouped[hosts], rows_by, columns_by, {**of.setting, "hosts": hosts}, axes_of_models)
        for hosts in sorted(grouped)
    ]


def _variants(results: Sequence[Result], rest: Sequence[str], of_model: Sequence[str]) -> list[int]:
    """Which of its model's settings each result has: 0 with the largest batch, as in an article's
    first table, then others.
    """
    if not of_model:
        return [0] * len(results)
    of_rest = zip(results, _values(results, rest), strict=True)
    keys = [(result.place.key, result.axes["model"], *values) for result, values in of_rest]
    settings = _values(results, of_model)
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
    """Of results of one place, no two of which have the same row and column; `of_model`: axes that
    vary with the model.
    """
    rows, columns = _values(results, rows_by), _values(results, columns_by)
    placed = dict(zip(zip(rows, columns, strict=True), results, strict=True))
    along_row = bool(_SIZES.intersection(rows_by)) or tuple(rows_by) == ("hosts",)
    can_compete = not (along_row and _SIZES.intersection(columns_by))
    competing: dict[tuple[Label, int], list[Result]] = defaultdict(list)
    for (row, column), result in placed.items():
        competing[row if along_row else column, result.hosts].append(result)
    best = {label: _best(of) for label, of in competing.items() if can_compete}
    return Table(
        rows_by=tuple(rows_by),
        columns_by=tuple(columns_by),
        setting=setting,
        place=results[0].place,
        rows=_ordered(rows, results[0].place.origin),
        columns=_ordered(columns, results[0].place.origin),
        cells={
            (row, column): Cell(
                result=result,
                rank=_rank(result, best.get((row if along_row else column, result.hosts))),
            )
            for (row, column), result in placed.items()
        },
        of_models={
            result.axes["model"]: dict(zip(of_model, values, strict=True))
            for result, values in zip(results, _values(results, of_model), strict=True)
            if of_model
        },
    )


def axes_of(results: Sequence[Result]) -> tuple[str, ...]:
    """By which they can be told apart."""
    of_source = results and results[0].place.origin is Origin.PUBLISHED
    return tuple(results[0].axes) if of_source else results_axes_of(results)


def _check(results: Sequence[Result], rows_by: Sequence[str], columns_by: Sequence[str]) -> None:
    known = axes_of(results)
    for axis in (*rows_by, *columns_by):
        if axis not in known:
            raise StoreError(f"{axis[:100]}: no such axis; {nearest(axis[:100], known)}")
        if (*rows_by, *columns_by).count(axis) > 1:
            raise StoreError(f"{axis}: wanted down or across, once")


def _axes(results: Sequence[Result], pivoted: set[str]) -> list[str]:
    """Those that tell results apart: the strategy by its name, unless a part of it is pivoted."""
    left_out = ("strategy",) if pivoted.intersection(STRATEGY_AXES) else STRATEGY_AXES
    return [axis for axis in axes_of(results) if axis not in left_out]


def _values(results: Sequence[Result], axes: Sequence[str]) -> list[Label]:
    """Of strong scaling the global batch stands for the batch, unless GPUs are told apart without
    it.
    """
    if not axes:
        return [()] * len(results)

    def values(found: Mapping[str, object]) -> Label:
        return tuple(found.get(axis) for axis in axes)

    if "batch_size" not in axes or "num_gpus" in axes:
        return [values(result.axes) for result in results]
    return [
        values(
            {**result.axes, "batch_size": global_batch(result)}
            if result.axes.get("scaling") == "strong"
            else result.axes
        )
        for result in results
    ]


def _named(settings: Mapping[Label, Mapping[str, object]]) -> dict[object, list[str]]:
    """By model the axes worth naming: the usual ones, what is unusual somewhere, and whatever
    differs between its tables.
    """
    by_model: dict[object, list[Mapping[str, object]]] = defaultdict(list)
    for setting in settings.values():
        by_model[setting.get("model")].append(setting)
    return {model: _named_of(of) for model, of in by_model.items()}


def _named_of(settings: Sequence[Mapping[str, object]]) -> list[str]:
    named = {*_ALWAYS_NAMED}.union(*map(unusual_axes, settings))
    if any(setting[_SHARED] for setting in settings):
        named.add(_SHARED)
    differing = {
        axis for axis in settings[0] if len({setting.get(axis) for setting in settings}) > 1
    }
    return [axis for axis in settings[0] if axis in named | differing]


def _best(results: Iterable[Result]) -> Result | None:
    """The fastest, where there are two or more to choose from; of those that train one model, where
    there are such.
    """
    able = [result for result in results if result.throughput is not None]
    able = [result for result in able if not result.trains_apart] or able
    return max(able, key=lambda result: result.throughput or 0.0) if len(able) > 1 else None


_RANKS = {
    Relation.MORE: Rank.SLOWER,
    Relation.LESS: Rank.TIE,  # its processes were faster on the average, its median was not
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


def _ordered(labels: Sequence[Label], origin: Origin) -> tuple[Label, ...]:
    """Numbers by size; texts by alphabet, those of published figures as the source has them."""
    found = dict.fromkeys(labels)
    if origin.is_ours:
        return tuple(sorted(found, key=_sortable))
    appeared = {
        value: f"{number:09}"
        for number, value in enumerate(dict.fromkeys(value for label in found for value in label))
    }
    told = {
        label: tuple(
            value if isinstance(value, int | float) else appeared[value] for value in label
        )
        for label in found
    }
    return tuple(sorted(found, key=lambda label: _sortable(told[label])))


def _sortable(label: Label) -> list[tuple[int, float, str]]:
    """Numbers by size before texts by alphabet."""
    return [
        (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))
        for value in label
    ]

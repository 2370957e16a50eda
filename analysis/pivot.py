"""Tables of results: any axes down, any axes across, and a table for each value of the others."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter, itemgetter

from analysis.judgement import contradiction
from analysis.labels import (
    FOLLOWERS,
    Label,
    axes_by_strategy,
    axes_of,
    check,
    full_names,
    labels_of,
    ordered,
    variables_apart,
    varying,
)
from analysis.results import Environment, Result, timed_outside, with_number
from scalemark.records.axes import is_env_variable
from scalemark.records.references import Origin
from scalemark.records.trial import PROGRAM_AXES, STRATEGY_AXES, unusual_axes
from scalemark.stats.welch import Relation, relation

# other work, no better choice: never ranked along
_SIZES = frozenset({"num_gpus", "model", "model_digest", "image_px", "seq_len", "num_classes"})


class RowRank(StrEnum):
    """The place of a number among those it competes with, see `_rivals`."""

    BEST = "best"
    TIE = "tie"  # the 95 % CI of the best one's ratio to it contains 1
    # one of the two is a single run, or its repeats contradict each other
    UNKNOWN = "unknown"
    OUT = "out"  # either of these, but a race has put it out, and its repeats are few for that
    SLOWER = "slower"
    ALONE = "alone"  # without competition


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A result in its table."""

    result: Result
    rank: RowRank


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
        able = with_number(self.results)
        return (able or self.results)[0].unit

    @property
    def hosts(self) -> int:
        """The number of hosts of all of its results; 1 where labels say it of each."""
        numbers = {result.hosts for result in self.results}
        if len(numbers) == 1:
            return numbers.pop()
        return 1

    def counted(self, num_gpus: int) -> str:
        """Return `8 GPUs`, or `8 GPUs over 2 hosts`."""
        return self.environment.counted(num_gpus, self.hosts)


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
    rows, columns = labels_of(results, rows_by, pivoted), labels_of(results, columns_by, pivoted)
    placed = dict(zip(zip(rows, columns, strict=True), results, strict=True))
    competing: dict[Label, list[Result]] = defaultdict(list)
    rivals = _rivals(placed, rows_by, columns_by)
    for key, result in zip(rivals, placed.values(), strict=True):
        competing[key].append(result)
    best, cells = {}, {}
    for key, of in competing.items():
        able = with_number(of)
        # of those that train one model, where there are such
        able = [result for result in able if not result.trains_apart] or able
        fastest = max(able, key=lambda result: result.throughput or 0.0, default=None)
        best[key] = fastest if len(able) > 1 else None
    for key, (where, result) in zip(rivals, placed.items(), strict=True):
        cells[where] = Cell(result=result, rank=_rank(result, best[key]))
    of_models = {}
    if of_model:
        for result, values in zip(results, labels_of(results, of_model), strict=True):
            of_models[result.axes["model"]] = dict(zip(of_model, values, strict=True))
    environment = results[0].environment
    return Table(
        rows_by=tuple(rows_by),
        columns_by=tuple(columns_by),
        setting=setting,
        environment=environment,
        rows=ordered(rows, rows_by, environment.origin),
        columns=ordered(columns, columns_by, environment.origin),
        cells=cells,
        of_models=of_models,
    )


def _rivals(
    placed: Mapping[tuple[Label, Label], Result], rows_by: Sequence[str], columns_by: Sequence[str]
) -> list[Label]:
    """Return of each cell what is the same for cells that compete: of one column, or of one row
    where the rows differ in their work alone; never for other work or other hosts.
    """
    is_along_row = all(axis in _SIZES or axis == "hosts" for axis in rows_by)
    by = columns_by if is_along_row else rows_by
    places = [place for place, axis in enumerate(by) if axis in _SIZES]
    rivals = []
    for (row, column), result in placed.items():
        own, beside = (row, column) if is_along_row else (column, row)
        rivals.append((own, *[beside[place] for place in places], result.hosts))
    return rivals


_RANKS = {
    Relation.MORE: RowRank.SLOWER,
    Relation.TIE: RowRank.TIE,
    Relation.UNKNOWN: RowRank.UNKNOWN,
}


def _rank(result: Result, best: Result | None) -> RowRank:
    if best is None or result.throughput is None or result.trains_apart > best.trains_apart:
        return RowRank.ALONE
    if result is best:
        return RowRank.BEST
    rank = _RANKS[relation(best.repeats, result.repeats)]
    if rank is RowRank.TIE and (contradiction(best.repeats) or contradiction(result.repeats)):
        rank = RowRank.UNKNOWN
    if result.out_of_race and rank is not RowRank.SLOWER:
        return RowRank.OUT
    return rank


_ALWAYS_NAMED = ("strategy", "model", "batch_size", "image_px", "precision", "data", "scaling")
_WORK = ("model", "model_digest", "command", "read", "scaling")  # of each a table of its own
_MOST_COLUMNS = 8
_SHARED = "shares_host"  # not an axis, but shown in titles like one
# what each model has its own of
_OF_OUR_MODEL = (
    *("model_digest", "batch_size", "image_px", "seq_len", "num_classes"),
    *("learning_rate", "weight_decay"),
)
_OF_A_PUBLISHED_MODEL = ("batch_size", "strategy", *STRATEGY_AXES)


def varied_tables(results: Sequence[Result], across: str = "") -> list[Table]:
    """Return a table for each model and environment: its columns are the numbers of GPUs, or the
    axis with most values, or `across`; its rows are all other axes that vary. What is constant is
    in the title.
    """
    results = timed_outside(results)
    grouped: dict[Label, list[Result]] = defaultdict(list)
    for result, item in zip(results, _items(results), strict=True):
        work = tuple(result.axes.get(axis) for axis in _WORK)
        grouped[result.environment.key, item, *work].append(result)
    works: dict[object, set[Label]] = defaultdict(set)
    for _, _, model, *rest in grouped:
        works[model].add(tuple(rest))
    tables = []
    for (_, _, model, *_), of in grouped.items():
        named = []
        for axis, of_axis in zip(_WORK[1:], zip(*works[model], strict=True), strict=True):
            if len(set(of_axis)) > 1:
                named.append(axis)
        axes = axes_of(of)
        different = varying(of, axes)
        rows_by, columns, following = _shape(of, across, different)
        tables += _pivot(of, axes, different, rows_by, (columns,), named, following)
    return tables


def _shape(
    results: Sequence[Result], across: str, different: Sequence[str]
) -> tuple[list[str], str, dict[str, str]]:
    """Return the axes down and the one across of a table of one model, and axes that the planner
    has set by another one, with that one.
    """
    apart_from = {"strategy", *_WORK}
    axes = axes_by_strategy(different, results, {"strategy"})
    axes = [axis for axis in axes if axis not in apart_from]
    apart = variables_apart(results, ("strategy",))
    # of strong scaling the global batch
    others = [axis for axis in axes if axis != "num_gpus"]
    labels = _labels_beside(results, others, apart, by_strategy=True)
    num_values = {"num_gpus": len(set(map(attrgetter("num_gpus"), results)))}
    for axis, values in zip(others, zip(*labels, strict=True), strict=True):
        num_values[axis] = len(set(map(str, values)))
    columns = across or "num_gpus"
    varied = [axis for axis in axes if num_values[axis] > 1 and axis != columns]
    following = _following(results, varied, varied)
    varied = [axis for axis in varied if axis not in following]
    varied.sort(key=lambda axis: axis != "hosts")
    has_strategies = len(set(map(attrgetter("strategy"), results))) > 1
    is_needed = not across and num_values["num_gpus"] < 2
    if is_needed and varied and len(varied) + has_strategies > 1:
        fitting = [axis for axis in varied if num_values[axis] <= _MOST_COLUMNS]
        columns = max(fitting or varied[:1], key=num_values.__getitem__)
        varied.remove(columns)
    if has_strategies or not varied:
        varied.insert(0, "strategy")
    return varied, columns, following


def _following(
    results: Sequence[Result], leaders: Sequence[str], axes: Collection[str]
) -> dict[str, str]:
    """Return those of the axes that the planner has set by leaders, with these."""
    names = list(dict.fromkeys([*leaders, *axes]))
    labels = [tuple(map(result.axes.get, names)) for result in results]
    following: dict[str, str] = {}
    for leader, followers in FOLLOWERS.items():
        if leader not in leaders:
            continue
        # alone, or with one other, as data_format of precision and xla
        beside = [name for name in leaders if name not in (leader, "num_gpus", *followers)]
        for by in ([leader], *([leader, name] for name in beside)):
            for axis in followers:
                if axis in axes and axis not in following and _follows(axis, by, names, labels):
                    following[axis] = " and ".join(by)
    return following


def _follows(
    axis: str, leaders: Sequence[str], axes: Sequence[str], labels: Sequence[Label]
) -> bool:
    """Return whether other axes decide this one, as precision does data_format."""
    values: dict[tuple[str, ...], str] = {}
    for label in labels:
        value = str(label[axes.index(axis)])
        key = tuple(str(label[axes.index(leader)]) for leader in leaders)
        if values.setdefault(key, value) != value:
            return False
    return True


def pivot(
    results: Sequence[Result],
    rows_by: Sequence[str] = ("strategy",),
    columns_by: Sequence[str] = ("num_gpus",),
) -> list[Table]:
    """Return tables in the order of their first results.

    Texts of published figures are down and across in their order of appearance. Raises StoreError
    for unknown axes.
    """
    rows_by, columns_by = (full_names(results, axes) for axes in (rows_by, columns_by))
    check(results, rows_by, columns_by)
    if not results:
        return []
    results = timed_outside(results)
    parts: Sequence[Sequence[Result]] = [results]
    if results[0].environment.origin is Origin.ELSEWHERE:
        grouped: dict[str, list[Result]] = defaultdict(list)
        for result in results:
            grouped[result.environment.key].append(result)
        parts = list(grouped.values())  # what one of them does not say is no axis of it
    tables = []
    for of in parts:
        axes = axes_of(of)
        different = varying(of, axes)
        pivoted = [*rows_by, *columns_by]
        beside = [axis for axis in different if axis not in pivoted]
        following = _following(of, pivoted, beside)
        tables += _pivot(of, axes, different, rows_by, columns_by, following=following)
    return tables


def over_growing_hosts(tables: Sequence[Table]) -> list[Table]:
    """Join tables that differ in their hosts alone, where these grow with the GPUs: there are more
    GPUs over more hosts, and one number of hosts for each number of GPUs.
    """
    grouped: dict[Label, list[Table]] = defaultdict(list)
    for each in tables:
        setting = {**each.setting, "hosts": ""}
        same = tuple(zip(setting, map(str, setting.values()), strict=True))
        grouped[each.environment.key, each.unit, same].append(each)
    joined = []
    for of in grouped.values():
        results: list[Result] = []
        for each in of:
            results += each.results
        spreads = sorted({(result.num_gpus, result.hosts) for result in results})
        hosts = list(map(itemgetter(1), spreads))
        is_one_each = len(dict(spreads)) == len(spreads)
        if len(of) == len(set(hosts)) > 1 and is_one_each and hosts == sorted(hosts):
            shared = {**of[0].setting, "hosts": f"{hosts[0]} to {hosts[-1]}"}
            joined.append(table(results, of[0].rows_by, of[0].columns_by, shared))
        else:
            joined += of
    return joined


def _pivot(
    results: Sequence[Result],
    every_axis: Sequence[str],
    different: Collection[str],  # axes of these: labels of the others are alike
    rows_by: Sequence[str],
    columns_by: Sequence[str],
    also_named: Collection[str] = (),
    following: Mapping[str, str] = {},
) -> list[Table]:
    pivoted = {*rows_by, *columns_by}
    axes = axes_by_strategy(every_axis, results, pivoted)
    others = [axis for axis in axes if axis not in pivoted and axis not in following]
    by_strategy = "strategy" in pivoted or "strategy" in others
    of_model = []  # axes of which each model has one value of its own, as its batch size
    if "model" in pivoted:
        is_ours = results[0].environment.origin.is_ours
        candidates = _OF_OUR_MODEL if is_ours else _OF_A_PUBLISHED_MODEL
        own = [axis for axis in others if axis in candidates]
        of_each = labels_of(results, ["model", *own])
        of_model = [axis for axis in own if _follows(axis, ["model"], ["model", *own], of_each)]
    rest = [axis for axis in others if axis not in of_model]
    apart = variables_apart(results, pivoted)
    cells = labels_of(results, (*rows_by, *columns_by), pivoted | apart)
    of_rest = _labels_beside(
        results, [axis for axis in rest if axis in different], apart, by_strategy
    )
    named_axes: set[str] = set()
    for result in results:
        named_axes.update(result.named_axes)
    grouped: dict[Label, list[Result]] = defaultdict(list)
    settings: dict[Label, dict[str, object]] = {}
    num_in: Counter[Label] = Counter()
    for result, item, cell, values in zip(results, _items(results), cells, of_rest, strict=True):
        where = (result.environment.key, item, *values)
        # a source may report one thing twice: the second is in a table of its own
        num_in[where, cell] += 1
        key = (num_in[where, cell], *where)
        grouped[key].append(result)
        if key not in settings or result.is_of_program or not result.environment.origin.is_ours:
            (every,) = _labels_beside([result], rest, apart, by_strategy)
            settings[key] = _setting(result, rest, every, named_axes, apart)
            settings[key] |= {axis: f"by {leader}" for axis, leader in following.items()}
            settings[key][_SHARED] = result.environment.shares_host
    named = _named(settings.values(), also_named)
    tables = []
    for key, of in grouped.items():
        setting = settings[key]
        shown = {axis: setting[axis] for axis in named[setting.get("model")] if axis in setting}
        tables.append(table(of, rows_by, columns_by, shown, of_model))
    return tables


def _labels_beside(
    results: Sequence[Result], axes: Sequence[str], apart: Collection[str], by_strategy: bool
) -> list[Label]:
    """Return labels, beside a strategy without what it stands for where it names free axes."""
    labels = labels_of(results, axes)
    if not by_strategy:
        return labels
    for number, result in enumerate(results):
        if not result.is_named_by_free_axes:
            continue
        kept = list(labels[number])
        for place, axis in enumerate(axes):
            if axis in result.strategy_axes and axis not in apart:
                kept[place] = None
        labels[number] = tuple(kept)
    return labels


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
    setting = {}
    for axis, value in zip(axes, values, strict=True):
        if not result.environment.origin.is_ours:
            if value is not None or axis not in by_name:
                setting[axis] = value
            continue
        is_inherited = is_env_variable(axis) and (axis in apart or axis not in result.strategy_axes)
        if (value is not None or is_inherited) and (value != "" or axis not in PROGRAM_AXES):
            setting[axis] = value
    return setting


def _items(results: Sequence[Result]) -> list[str]:
    """Return what each result counts; one without a number counts what its model counted elsewhere,
    so that failures stand beside the numbers that they are missing from.
    """
    by_model = {}
    for result in with_number(results):
        by_model[result.environment.key, result.axes["model"]] = result.item
    items = []
    for result in results:
        item = result.item
        if result.throughput is None:
            item = by_model.get((result.environment.key, result.axes["model"]), item)
        items.append(item)
    return items


def _named(
    settings: Iterable[Mapping[str, object]], also_named: Collection[str]
) -> dict[object, list[str]]:
    """Return by model the axes worth naming: the usual ones, what is unusual somewhere, and what
    differs between its tables.
    """
    by_model: dict[object, list[Mapping[str, object]]] = defaultdict(list)
    for setting in settings:
        by_model[setting.get("model")].append(setting)
    named_of = {}
    for model, of in by_model.items():
        named = {*_ALWAYS_NAMED, *also_named}.union(*map(unusual_axes, of))
        if any(setting[_SHARED] for setting in of):
            named.add(_SHARED)
        axes: dict[str, None] = {}
        for setting in of:
            axes |= dict.fromkeys(setting)
        for axis in axes:
            if len({setting.get(axis) for setting in of}) > 1:
                named.add(axis)
        named_of[model] = [axis for axis in axes if axis in named]
    return named_of

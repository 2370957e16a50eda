"""One table of results: a cell for each row and column, and how its number ranks among others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from analysis.results import Environment, Result
from analysis.tables.labels import Label, labels_of, ordered
from scalemark.stats.welch import Relation, relation

# other work, no better choice: never ranked along
_SIZES = frozenset({"num_gpus", "model", "model_digest", "image_px", "seq_len", "num_classes"})


class RowRank(StrEnum):
    """The place of a number among those it competes with, see `_rivals`."""

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
        able = [result for result in self.results if result.throughput is not None]
        return (able or self.results)[0].unit

    @property
    def hosts(self) -> int:
        """The number of hosts of all of its results; 1 where labels say it of each."""
        numbers = {result.hosts for result in self.results}
        return numbers.pop() if len(numbers) == 1 else 1

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
    rivals = {}
    for (row, column), result in placed.items():
        rivals[row, column] = _rivals(rows_by, columns_by, row, column, result.hosts)
        competing[rivals[row, column]].append(result)
    best = {key: _best(of) for key, of in competing.items()}
    cells = {}
    for where, result in placed.items():
        cells[where] = Cell(result=result, rank=_rank(result, best[rivals[where]]))
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
    rows_by: Sequence[str], columns_by: Sequence[str], row: Label, column: Label, hosts: int
) -> Label:
    """Return the same for cells that compete: of one column, or of one row where the rows differ
    in their work alone; never for other work or other hosts.
    """
    is_along_row = all(axis in _SIZES or axis == "hosts" for axis in rows_by)
    beside, by = (column, columns_by) if is_along_row else (row, rows_by)
    sizes = [value for axis, value in zip(by, beside, strict=True) if axis in _SIZES]
    return (row if is_along_row else column, *sizes, hosts)


def _best(results: Iterable[Result]) -> Result | None:
    """Return the fastest of two or more, of those that train one model where there are such."""
    able = [result for result in results if result.throughput is not None]
    able = [result for result in able if not result.trains_apart] or able
    return max(able, key=lambda result: result.throughput or 0.0) if len(able) > 1 else None


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
    return RowRank.OUT if result.out_of_race and rank is not RowRank.SLOWER else rank

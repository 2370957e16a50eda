"""Tables as text, before any format writes them: what each cell holds, and the legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.results import Origin, Result
from analysis.selection import Selection
from analysis.tables.labels import Label
from analysis.tables.table import Cell, Rank, Table
from analysis.text import badges
from analysis.text.titles import short_title, table_title
from plots.tables.notes import notes
from plots.tables.quantities import QUANTITIES, THROUGHPUT, usual
from plots.tables.symbols import (
    MEANINGS,
    NOT_IN_TABLE,
    NOT_PUBLISHED,
    NOT_RUN,
    OUT,
    PARTLY_FAILED,
    REPORTED,
    SUSPECT,
    SYMBOLS,
    TIE,
    symbols_of_repeats,
)
from scalemark.records.outcomes import Outcome

_MARKS = {Rank.TIE: TIE, Rank.OUT: OUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One cell."""

    text: str  # as "1131 [1120, 1142] (7.97x)", "OOM", or NOT_RUN
    short: str  # for a narrow terminal, as "1131 (7.97x)"; the text where somebody chose all of it
    rank: Rank
    result: Result | None  # None where it was not run

    @property
    def is_bold(self) -> bool:
        """Return whether it is the fastest, or tied with the fastest."""
        return self.rank in (Rank.BEST, Rank.TIE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One table."""

    title: str
    corner: str  # heading of the row titles
    columns: tuple[str, ...]  # as "4 GPUs"
    above: str  # what the columns count, as "GPUs"; empty where they count nothing
    counts: tuple[str, ...]  # the columns below it, as "4"
    rows: tuple[tuple[str, tuple[Shown, ...]], ...]
    notes: tuple[str, ...]  # what a reader must know
    legend: tuple[str, ...]  # the badges, marks and symbols that occur, to be read after the notes
    table: Table


def lay_out(table: Table, selection: Selection, quantities: Sequence[str] | None = None) -> Layout:
    """Write a table of this selection; each cell holds these quantities, or the usual ones."""
    wanted = quantities or usual(table.results)
    briefly = wanted if quantities else [name for name in wanted if name != "interval"]
    rows = []
    for row in table.rows:
        where = [(row, column) for column in table.columns]
        cells = tuple(_shown(table, one, wanted, briefly) for one in where)
        rows.append((_bare(table, table.rows_by, row), cells))
    columns = tuple(short_title(table, table.columns_by, column) for column in table.columns)
    return Layout(
        title=table_title(table.environment, table.setting),
        corner=table.environment.devices if _is_count(table.rows_by) else " ".join(table.rows_by),
        columns=columns,
        above=table.environment.devices if _is_count(table.columns_by) else "",
        counts=tuple(_bare(table, table.columns_by, column) for column in table.columns),
        rows=tuple(rows),
        notes=tuple(notes(table, selection, wanted)),
        legend=tuple(_legend(table, [cell for _, cells in rows for cell in cells])),
        table=table,
    )


def _is_count(axes: Sequence[str]) -> bool:
    return tuple(axes) == ("num_gpus",)


def _bare(table: Table, axes: Sequence[str], label: Label) -> str:
    """Return a number of devices as `4` below what it counts, and other titles as they are."""
    return str(label[0]) if _is_count(axes) else short_title(table, axes, label)


def _shown(
    table: Table, where: tuple[Label, Label], wanted: Sequence[str], briefly: Sequence[str]
) -> Shown:
    cell = table.cells.get(where)
    if cell is None:
        text = _MISSING.get(table.environment.origin, NOT_RUN)
        return Shown(text=text, short=text, rank=Rank.ALONE, result=None)
    text, short = _text(cell, wanted), _text(cell, briefly)
    for mark in _MARKS.values() if briefly is not wanted else ():
        short = short.replace(f" {mark}", mark)
    return Shown(text=text, short=short, rank=cell.rank, result=cell.result)


_MISSING = {Origin.PUBLISHED: NOT_PUBLISHED, Origin.ELSEWHERE: NOT_IN_TABLE}


def _text(cell: Cell, quantities: Sequence[str]) -> str:
    result = cell.result
    if result.throughput is None:
        return SYMBOLS[Outcome(result.outcome)]
    marks = "" if result.is_valid else SUSPECT
    if result.is_reported:
        marks += REPORTED
    if result.failed:
        marks += PARTLY_FAILED
    if cell.rank in _MARKS:
        marks += f" {_MARKS[cell.rank]}"
    texts = {name: QUANTITIES[name].text(result) for name in quantities}
    texts = {name: text for name, text in texts.items() if text}
    if THROUGHPUT not in texts:
        return f"{', '.join(texts.values()) or NOT_RUN}{marks}"
    text = texts.pop(THROUGHPUT) + marks
    if "interval" in texts:
        text += f" {texts.pop('interval')}"
    return f"{text} ({', '.join(texts.values())})" if texts else text


def _legend(table: Table, cells: Sequence[Shown]) -> Iterator[str]:
    """Explain the badges, marks and symbols that occur."""
    origin = table.environment.origin
    numbers = [cell.result for cell in cells if cell.result and cell.result.throughput is not None]
    found = {*(cell.text for cell in cells), *symbols_of_repeats(numbers)}
    ranks = {cell.rank for cell in cells}
    if Rank.TIE in ranks:
        yield f"{TIE} {badges.foot(['tie'])}"
    if Rank.OUT in ranks:
        yield f"{OUT} {badges.foot(['raced out'])}"
    if Rank.UNKNOWN in ranks and origin.is_ours:
        yield f"{badges.foot(['single run'])} (sweep.repeats=3 tells)"
    if Rank.UNKNOWN in ranks and origin is Origin.ELSEWHERE:
        yield "the fastest is not certain where a trial has one row only"
    if not origin.is_ours and not all(result.is_valid for result in table.results):
        yield f"{SUSPECT} {badges.foot(['in doubt'])}"
    yield from map(badges.foot, ([badge] for badge in badges.of_environment(table.environment)))
    for symbol, meaning in MEANINGS.items():
        if symbol in found:
            yield f"{symbol}: {meaning}"

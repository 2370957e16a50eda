"""Tables as text, before they are written in any format: what stands in each cell, and the notes
below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.pivot import Cell, Rank, Table
from analysis.results import BaselineRule, Origin, Result
from analysis.selection import Selection
from analysis.text.titles import model_notes, short_title, table_notes, table_title
from plots.tables.baselines import baseline_notes
from plots.tables.quantities import QUANTITIES, usual
from scalemark.records.outcomes import Outcome

NOT_RUN = "–"
NOT_PUBLISHED = "N/A"
SUSPECT = "*"
PARTLY_FAILED = "†"
TIE = "≈"
OUT = "↓"
SYMBOLS = {
    Outcome.OUT_OF_MEMORY: "OOM",
    Outcome.HUNG: "HANG",
    Outcome.TIMED_OUT: "TIMEOUT",
    Outcome.UNSUPPORTED: "UNSUP",
    Outcome.FAILED: "FAIL",
    Outcome.INTERRUPTED: "STOP",
    Outcome.INVALID: "INVALID",
}
"""What stands where a number would."""

MEANINGS = {
    "OOM": "out of memory",
    "HANG": "hung: its steps stopped coming",
    "TIMEOUT": "took longer than it was allowed to",
    "UNSUP": "not supported by this machine or software",
    "FAIL": "failed",
    "STOP": "interrupted",
    "INVALID": "completed, but not as its axes say: no number to quote",
    NOT_RUN: "not run",
    NOT_PUBLISHED: "not published",
    TIE: "not told apart from the fastest: the 95 % interval of their ratio reaches 1",
    OUT: (
        "put out of a race, too far behind to lead after all repeats; its few repeats alone do "
        "not tell it from the fastest"
    ),
}
_MARKS = {Rank.TIE: TIE, Rank.OUT: OUT}
_MOST_NAMED = 3  # attempts in a note
_OF_TRIAL = 12  # characters of its id: enough to find it by


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One cell."""

    text: str  # as "1131 [1120..1142] (7.97x)", "OOM", or NOT_RUN
    rank: Rank
    result: Result | None  # None where it was not run

    @property
    def is_bold(self) -> bool:
        """The fastest, and who is as fast."""
        return self.rank in (Rank.BEST, Rank.TIE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One table."""

    title: str
    corner: str  # heading of the row titles
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Shown, ...]], ...]
    notes: tuple[str, ...]  # what a reader must know, the legend included
    legend: tuple[str, ...]  # the last of the notes: the marks and symbols that occur
    table: Table


def lay_out(table: Table, selection: Selection, quantities: Sequence[str] | None = None) -> Layout:
    """Write a table of this selection with these quantities in each cell; without any with those
    of `plots.tables.quantities.usual`.
    """
    wanted = tuple(quantities) if quantities is not None else usual(table.results)
    cells = {
        (row, column): _shown(table.cells.get((row, column)), wanted, table.place.origin)
        for row in table.rows
        for column in table.columns
    }
    above = (*model_notes(table), *table_notes(table), *selection.notes)
    legend = tuple(_legend(list(cells.values())))
    return Layout(
        title=table_title(table.place, table.setting),
        corner=" ".join(table.rows_by),
        columns=tuple(short_title(table, table.columns_by, column) for column in table.columns),
        rows=tuple(
            (
                short_title(table, table.rows_by, row),
                tuple(cells[row, column] for column in table.columns),
            )
            for row in table.rows
        ),
        notes=(
            *above,
            *_reading(table, wanted, selection.baseline),
            *_doubts(table, selection),
            *legend,
        ),
        legend=legend,
        table=table,
    )


def in_words(quantities: Sequence[str], unit: str) -> str:
    """What the cells hold, as `images/s (speed-up)`."""
    if "images/s" not in quantities:
        return ", ".join(quantities)
    others = ", ".join(name for name in quantities if name not in ("images/s", "interval"))
    interval = " [95 % interval]" if "interval" in quantities else ""
    return f"{unit}{interval}" + (f" ({others})" if others else "")


def _shown(cell: Cell | None, quantities: Sequence[str], origin: Origin) -> Shown:
    if cell is None:
        return Shown(
            text=NOT_PUBLISHED if origin is Origin.PUBLISHED else NOT_RUN,
            rank=Rank.ALONE,
            result=None,
        )
    return Shown(text=_text(cell, quantities), rank=cell.rank, result=cell.result)


def _text(cell: Cell, quantities: Sequence[str]) -> str:
    result = cell.result
    if result.throughput is None:
        return SYMBOLS[Outcome(result.outcome)]
    told = {name: QUANTITIES[name].text(result) for name in quantities}
    doubts = f"{'' if result.is_valid else SUSPECT}{PARTLY_FAILED if result.failed else ''}"
    marks = doubts + (f" {_MARKS[cell.rank]}" if cell.rank in _MARKS else "")
    if "images/s" not in told:
        return f"{', '.join(filter(None, told.values())) or NOT_RUN}{marks}"
    first = " ".join(filter(None, (told.pop("images/s") + marks, told.pop("interval", ""))))
    others = ", ".join(filter(None, told.values()))
    return f"{first} ({others})" if others else first


def _reading(table: Table, quantities: Sequence[str], rule: BaselineRule) -> Iterator[str]:
    """How the cells are to be read."""
    if not any(result.throughput for result in table.results):
        return
    yield f"cells: {in_words(quantities, table.unit)}"
    repeated = any(len(result.repeats) > 1 for result in table.results)
    told = {name: QUANTITIES[name].about for name in quantities if name != "images/s" or repeated}
    yield from (f"{name}: {about}" for name, about in told.items() if about)
    if {"speed-up", "efficiency"}.intersection(quantities):
        yield from baseline_notes(table, rule)
    if "ratio" in quantities and any(result.against for result in table.results):
        if any(result.against and result.against.is_tie for result in table.results):
            yield f"{TIE} before a ratio: its 95 % interval contains 1"
        if any(result.against and result.against.low is None for result in table.results):
            yield (
                "ratio without an interval where a side has one process only: what another "
                "would bring is not known"
            )


def _doubts(table: Table, selection: Selection) -> Iterator[str]:
    ranks = {cell.rank for cell in table.cells.values()}
    if Rank.UNKNOWN in ranks and table.place.origin.is_ours:
        yield (
            "the fastest is not certain where a trial ran in one process only; sweep.repeats=3 "
            "would tell"
        )
    if table.place.origin is Origin.PUBLISHED:
        if not all(result.is_valid for result in table.results):
            yield f"{SUSPECT} the source leaves something of it in doubt, marked with ?"
    else:
        yield from _attempts_to_see(table.results, selection)


def _attempts_to_see(results: Sequence[Result], selection: Selection) -> Iterator[str]:
    """Yield a note for each kind of doubt, with the command that shows the attempts behind it."""
    told = [result for result in results if result.throughput is not None]
    suspect = [result for result in told if not result.is_valid]
    partly = [result for result in told if result.failed]
    invalid = [result for result in results if result.outcome == Outcome.INVALID]
    failed = [result.attempt_ids[-1] for result in results if result.throughput is None]
    if not (suspect or partly or invalid or failed):
        return
    show = selection.show_command
    for what, which in (("* suspect", suspect), ("INVALID", invalid)):
        if which:
            numbers = [attempt for result in which for attempt in result.attempt_ids]
            yield f"{what}: {show} {_first_of(numbers)} says why"
    if partly:
        symbols = ", ".join(_symbols_of_repeats(partly))
        there = " there" if partly[1:] else ""
        which_trial = f"{show} {partly[0].trial_id[:_OF_TRIAL]}"
        yield (
            f"{PARTLY_FAILED} some repeats brought no number: {symbols} "
            f"({which_trial} says what happened{there})"
        )
    if failed:
        there = " there" if failed[1:] else ""
        yield f"no number: {show} {failed[0]} says what happened{there}"


def _first_of(attempts: Sequence[int]) -> str:
    """Return the first attempt and the next ones, as `3 (or 4, 5, ...)`."""
    others = ", ".join(map(str, attempts[1:_MOST_NAMED]))
    more = ", ..." if attempts[_MOST_NAMED:] else ""
    return f"{attempts[0]} (or {others}{more})" if others else str(attempts[0])


def _symbols_of_repeats(results: Sequence[Result]) -> list[str]:
    """Of those that brought no number."""
    return list(
        dict.fromkeys(SYMBOLS[Outcome(outcome)] for result in results for outcome in result.failed)
    )


def _legend(cells: Sequence[Shown]) -> Iterator[str]:
    """Of the symbols that occur."""
    partly = [cell.result for cell in cells if cell.result and cell.result.throughput is not None]
    texts = {*(cell.text for cell in cells), *_symbols_of_repeats(partly)}
    marks = {_MARKS.get(cell.rank) for cell in cells}
    for symbol, meaning in MEANINGS.items():
        if symbol in texts or symbol in marks:
            yield f"{symbol}: {meaning}"

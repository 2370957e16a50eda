"""Tables as text, before any format writes them: what each cell holds, and the notes below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.pivot import Cell, Label, Rank, Table
from analysis.results import BaselineRule, Origin, Result
from analysis.selection import Selection
from analysis.text import badges
from analysis.text.numbers import number
from analysis.text.titles import (
    model_notes,
    reported_notes,
    short_title,
    table_facts,
    table_title,
    variable_notes,
)
from plots.tables import unknown_mfu
from plots.tables.quantities import QUANTITIES, THROUGHPUT, usual
from scalemark.abilities import least_replicas
from scalemark.records.earlier_trial import ID_DIGITS
from scalemark.records.outcomes import Outcome

NOT_RUN = "–"
NOT_PUBLISHED = "N/A"
NOT_IN_TABLE = "n/a"
SUSPECT = "*"
PARTLY_FAILED = "†"
REPORTED = "‡"
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
"""A word for each outcome that has no number."""

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
    NOT_IN_TABLE: "no row of the table that was taken in",
}
_MARKS = {Rank.TIE: TIE, Rank.OUT: OUT}
_MOST_NAMED = 3  # strategies or attempts in a note


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
        notes=tuple(_notes(table, selection, wanted)),
        legend=tuple(_legend(table, [cell for _, cells in rows for cell in cells])),
        table=table,
    )


def _is_count(axes: Sequence[str]) -> bool:
    return tuple(axes) == ("num_gpus",)


def _bare(table: Table, axes: Sequence[str], label: Label) -> str:
    """Return a number of devices as `4` below what it counts, and other titles as they are."""
    return str(label[0]) if _is_count(axes) else short_title(table, axes, label)


def _notes(table: Table, selection: Selection, wanted: Sequence[str]) -> Iterator[str]:
    marked = reported_notes(table.results)
    yield from model_notes(table)
    yield from (line for line in table_facts(table) if line not in marked)
    yield from (f"{REPORTED} {line}" for line in marked)
    yield from selection.notes
    yield from _how_to_read(table, wanted, selection.baseline)
    if "mfu" in wanted:
        yield from unknown_mfu.reasons(table.results, selection.show_command)
    if table.environment.origin.is_ours:
        yield from _attempts_to_see(table.results, selection)


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


def _how_to_read(table: Table, quantities: Sequence[str], rule: BaselineRule) -> Iterator[str]:
    if not any(result.throughput for result in table.results):
        return
    yield f"cells: {_cells_in_words(quantities, table.unit)}"
    is_repeated = any(len(result.repeats) > 1 for result in table.results)
    for name in quantities:
        if name != THROUGHPUT:
            yield from _about(table, name, name)
        elif is_repeated:
            yield from _about(table, name, table.unit)
    if {"speed-up", "efficiency"}.intersection(quantities):
        yield from _baseline_notes(table, rule)
    ratios = [result.against for result in table.results if result.against]
    if "ratio" in quantities and any(ratio.is_tie for ratio in ratios):
        yield f"{TIE} before a ratio: its 95 % interval contains 1"


def _about(table: Table, name: str, shown_as: str) -> Iterator[str]:
    about = QUANTITIES[name].about
    if table.environment.origin is Origin.ELSEWHERE:
        about = _OF_ROWS.get(name, about)
    if about:
        yield f"{shown_as}: {about}"


_OF_ROWS = {
    THROUGHPUT: "geometric mean of the rows that agree in all axes",
    "interval": "95 %, by Student's t on logarithms of these rows' throughputs",
    "repeats": "rows that agree in all axes",
}
"""What quantities are of tables that were taken in: nobody knows how many processes made a row."""


def _cells_in_words(quantities: Sequence[str], unit: str) -> str:
    """Return the content of a cell, as `images/s [95 % interval] (speed-up)`."""
    if THROUGHPUT not in quantities:
        return ", ".join(quantities)
    others = [name for name in quantities if name not in (THROUGHPUT, "interval")]
    text = f"{unit} [95 % interval]" if "interval" in quantities else unit
    return f"{text} ({', '.join(others)})" if others else text


def _baseline_notes(table: Table, rule: BaselineRule) -> Iterator[str]:
    """Name what speed-ups are against, and the options that find a baseline where there is none."""
    able = [result for result in table.results if result.throughput is not None]
    with_one = [result for result in able if result.baseline]
    others = []
    if rule is BaselineRule.SAME:
        others = [one for one in with_one if least_replicas(one.axes["variable_update"]) > 1]
    own = [one for one in with_one if one not in others]
    if own:
        yield f"speed-up: against {_baseline_in_words(table, own, rule)}"
    for strategy in dict.fromkeys(one.strategy for one in others):
        of_it = [one for one in others if one.strategy == strategy]
        has_one = any(one.baseline and one.baseline.num_gpus == 1 for one in of_it)
        taken = BaselineRule.BEST if has_one else BaselineRule.FEWEST
        against = _baseline_in_words(table, of_it, taken)
        yield f"speed-up of {strategy}, which cannot run on 1: against {against}"
    without = [result for result in able if not result.baseline]
    if not without:
        return
    which = ""
    if rule is BaselineRule.SAME:
        strategies = list(dict.fromkeys(result.strategy for result in without))
        which = f" of {', '.join(strategies[:_MOST_NAMED])}"
        if strategies[_MOST_NAMED:]:
            which += f" and {len(strategies) - _MOST_NAMED} more"
    ways = []
    if rule is not BaselineRule.BEST and any(result.num_gpus == 1 for result in able):
        ways.append("--baseline best compares with the fastest on 1")
    if rule is not BaselineRule.FEWEST:
        ways.append("--baseline fewest compares with the fewest it ran on")
    yield "; ".join([f"no speed-up: no number{which} on {table.environment.counted(1)}", *ways])


def _baseline_in_words(table: Table, results: Sequence[Result], rule: BaselineRule) -> str:
    one = table.environment.counted(1)
    if rule is BaselineRule.SAME:
        on_one_host = " of one host" if any(result.hosts > 1 for result in results) else ""
        return f"the same strategy on {one}{on_one_host}"
    baselines = {result.baseline for result in results if result.baseline}
    if rule is BaselineRule.FEWEST:
        counts = sorted({(baseline.num_gpus, baseline.hosts) for baseline in baselines})
        fewest = " or ".join(table.environment.counted(*count) for count in counts)
        return f"the same strategy on the fewest it ran on: {fewest}"
    if len(baselines) > 1:
        return f"the fastest on {one} of the same model and setting"
    (baseline,) = baselines
    return f"the fastest on {one}: {baseline.strategy}, {number(baseline.throughput)} {table.unit}"


def _attempts_to_see(results: Sequence[Result], selection: Selection) -> Iterator[str]:
    """Yield a note for each kind of doubt, with the command that shows the attempts behind it."""
    numbers = [result for result in results if result.throughput is not None]
    suspect = [result for result in numbers if not result.is_valid]
    partly = [result for result in numbers if result.failed]
    invalid = [result for result in results if result.outcome == Outcome.INVALID]
    failed = [result for result in results if result.throughput is None]
    if not (suspect or partly or failed):
        return
    show = selection.show_command
    for what, which in (("* suspect", suspect), ("INVALID", invalid)):
        if which:
            attempts = [attempt for result in which for attempt in result.attempt_ids]
            yield f"{what}: {show} {_first_of(attempts)} says why"
    if partly:
        symbols = ", ".join(_symbols_of_repeats(partly))
        trial = partly[0].trial_id[:ID_DIGITS]
        yield (
            f"{PARTLY_FAILED} failures: some of its repeats brought no number: {symbols} "
            f"({show} {trial} says what happened)"
        )
    if failed:
        yield f"no number: {show} {failed[0].attempt_ids[-1]} says what happened"


def _first_of(attempts: Sequence[int]) -> str:
    """Return the first attempt and the next ones, as `3 (or 4, 5, ...)`."""
    others = [str(attempt) for attempt in attempts[1:_MOST_NAMED]]
    if attempts[_MOST_NAMED:]:
        others.append("...")
    return f"{attempts[0]} (or {', '.join(others)})" if others else str(attempts[0])


def _symbols_of_repeats(results: Sequence[Result]) -> list[str]:
    """Return the symbols of repeats that brought no number, each once."""
    outcomes = [outcome for result in results for outcome in result.failed]
    return list(dict.fromkeys(SYMBOLS[Outcome(outcome)] for outcome in outcomes))


def _legend(table: Table, cells: Sequence[Shown]) -> Iterator[str]:
    """Explain the badges, marks and symbols that occur."""
    origin = table.environment.origin
    numbers = [cell.result for cell in cells if cell.result and cell.result.throughput is not None]
    found = {*(cell.text for cell in cells), *_symbols_of_repeats(numbers)}
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
    yield from variable_notes(table.results)
    yield from map(badges.foot, ([badge] for badge in badges.of_environment(table.environment)))
    for symbol, meaning in MEANINGS.items():
        if symbol in found:
            yield f"{symbol}: {meaning}"

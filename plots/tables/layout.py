"""Tables as text, before any format writes them: cells, titles, notes and the legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis import badges
from analysis.labels import Label
from analysis.pivot import RowRank, Table
from analysis.results import BaselineRule, Environment, Result
from analysis.selection import Selection
from analysis.titles import (
    SIMULATED,
    model_notes,
    named,
    number,
    program_name,
    reported_notes,
    short_title,
    table_facts,
    table_title,
    title,
)
from plots.options import Failed, stop
from plots.tables.cells import (
    MEANINGS,
    MISSING,
    NOT_RUN,
    OUT,
    PARTLY_FAILED,
    QUANTITIES,
    REPORTED,
    SUSPECT,
    THROUGHPUT,
    TIE,
    cell_text,
    symbols_of_repeats,
    usual,
)
from scalemark.abilities import least_replicas
from scalemark.own_model import is_own
from scalemark.records.outcomes import Outcome, Verdict
from scalemark.records.overrides import ID_DIGITS
from scalemark.records.references import Origin
from scalemark.text.wording import as_typed
from store.database import open_for_reading
from store.errors import StoreError
from store.reading import listing

_MOST_NAMED = 3  # strategies or reasons in a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """Why numbers are in doubt."""

    of: Mapping[str, tuple[str, ...]]  # by trial; only of trials in doubt
    shared: tuple[str, ...]  # reasons against every number, which are said once

    def own(self, result: Result) -> list[str]:
        """Return the reasons against this number that others do not share."""
        return [reason for reason in self.of.get(result.trial_id, ()) if reason not in self.shared]

    def is_marked(self, result: Result) -> bool:
        """Return whether its cell needs a mark of its own."""
        return not result.is_valid and (bool(self.own(result)) or not self.of.get(result.trial_id))


def doubts_of(results: Sequence[Result], selection: Selection) -> Doubts:
    """Read the reasons against numbers of ours; sources of other numbers give none."""
    numbers = [result for result in results if result.throughput is not None]
    suspect = [result for result in numbers if not result.is_valid]
    if not suspect or not selection.origin.is_ours:
        return Doubts(of={}, shared=())
    attempt_ids = [attempt for result in suspect for attempt in result.attempt_ids]
    rows = listing.attempt_details(open_for_reading(selection.db), attempt_ids)
    attempts = {row["attempt"]: row for row in rows}
    reasons: dict[str, tuple[str, ...]] = {}
    for result in suspect:
        texts: list[str] = []
        for attempt_id in result.attempt_ids:
            attempt = attempts[attempt_id]
            if attempt["verdict"] == Verdict.SUSPECT:
                texts += map(str, attempt["verdict_reasons"] or ["its verdict is suspect"])
            elif not attempt["verdict"] and not attempt["steady"]:
                texts.append("warm-up had not ended when measuring began")
        reasons[result.trial_id] = tuple(dict.fromkeys(texts))
    shared: tuple[str, ...] = ()
    if len(suspect) == len(numbers) > 1:
        common = set.intersection(*(set(of) for of in reasons.values()))
        shared = tuple(reason for reason in reasons[suspect[0].trial_id] if reason in common)
    return Doubts(of=reasons, shared=shared)


def notes(
    table: Table, selection: Selection, wanted: Sequence[str], doubts: Doubts
) -> Iterator[str]:
    """Yield what a reader of this table of this selection must know."""
    marked = reported_notes(table.results)
    yield from model_notes(table)
    yield from (line for line in table_facts(table) if line not in marked)
    yield from (f"{REPORTED} {line}" for line in marked)
    yield from selection.notes
    yield from _how_to_read(table, wanted, selection.baseline)
    if "mfu" in wanted:
        yield from _unknown_mfu(table.results, selection.show_command)
    if table.environment.origin.is_ours:
        yield from _attempts_to_see(table.results, selection, doubts)


def _how_to_read(table: Table, quantities: Sequence[str], rule: BaselineRule) -> Iterator[str]:
    if not any(result.throughput for result in table.results):
        return
    yield f"cells: {_cells_in_words(quantities, table.unit)}"
    is_repeated = any(len(result.repeats) > 1 for result in table.results)
    for name in quantities:
        if name == THROUGHPUT and not is_repeated:
            continue
        about = QUANTITIES[name].about
        if table.environment.origin is Origin.ELSEWHERE:
            about = _OF_ROWS.get(name, about)
        if about:
            yield f"{table.unit if name == THROUGHPUT else name}: {about}"
    if {"speed-up", "efficiency"}.intersection(quantities):
        yield from _baseline_notes(table, rule)


_OF_ROWS = {
    THROUGHPUT: "geometric mean of the rows that agree in all axes",
    "interval": "95 % confidence interval over these rows; below four, their range",
}
"""What quantities are in imported tables: how many processes made a row is unknown."""


def _cells_in_words(quantities: Sequence[str], unit: str) -> str:
    """Return the content of a cell, as `images/s [interval] (speed-up)`."""
    if THROUGHPUT not in quantities:
        return ", ".join(quantities)
    others = [name for name in quantities if name not in (THROUGHPUT, "interval")]
    text = f"{unit} [interval]" if "interval" in quantities else unit
    return f"{text} ({', '.join(others)})" if others else text


def _baseline_notes(table: Table, rule: BaselineRule) -> Iterator[str]:
    """Name what speed-ups are against, and the options that find a baseline where there is none."""
    able = [result for result in table.results if result.throughput is not None]
    compared = [result for result in able if result.baseline]
    others = []
    if rule is BaselineRule.SAME:
        others = [one for one in compared if least_replicas(one.axes["variable_update"]) > 1]
    own = [result for result in compared if result not in others]
    if own:
        yield f"speed-up: against {_baseline_in_words(table, own, rule)}"
    for strategy in dict.fromkeys(result.strategy for result in others):
        of_strategy = [result for result in others if result.strategy == strategy]
        has_one = any(one.baseline and one.baseline.num_gpus == 1 for one in of_strategy)
        taken = BaselineRule.BEST if has_one else BaselineRule.FEWEST
        against = _baseline_in_words(table, of_strategy, taken)
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


def _attempts_to_see(
    results: Sequence[Result], selection: Selection, doubts: Doubts
) -> Iterator[str]:
    """Yield a note for each kind of doubt, with the command that shows an attempt behind it."""
    show = selection.show_command
    numbers = [result for result in results if result.throughput is not None]
    by_reason: dict[str, list[Result]] = {}
    for result in numbers:
        if doubts.is_marked(result):
            for reason in doubts.own(result):
                by_reason.setdefault(reason, []).append(result)
    for reason, of_reason in list(by_reason.items())[:_MOST_NAMED]:
        yield f"{SUSPECT} {reason}: see {show} {of_reason[0].attempt_ids[0]}"
    if len(by_reason) > _MOST_NAMED:
        yield f"{SUSPECT} {len(by_reason) - _MOST_NAMED} more reasons: see {show}"
    invalid = [result for result in results if result.outcome == Outcome.INVALID]
    if invalid:
        yield f"INVALID: {show} {invalid[0].attempt_ids[0]} says why"
    partly = [result for result in numbers if result.failed]
    if partly:
        symbols = ", ".join(symbols_of_repeats(partly))
        trial = partly[0].trial_id[:ID_DIGITS]
        yield f"{PARTLY_FAILED} some repeats have no number: {symbols}; see {show} {trial}"
    failed = [result for result in results if result.throughput is None]
    if failed:
        yield f"no number: {show} {failed[0].attempt_ids[-1]} says what happened"


def _unknown_mfu(results: Sequence[Result], show_command: str) -> list[str]:
    """Return a line for each reason that numbers have no MFU, with the first such trial."""
    lines: dict[str, str] = {}
    for result in results:
        if result.throughput is None or result.usage.mfu is not None:
            continue
        reason = ""
        if not result.environment.origin.is_ours:
            reason = "the source does not report it"
        elif result.is_of_program:
            reason = "the FLOPs of a program are not counted"
        elif is_own(str(result.axes["model"])):
            reason = "the FLOPs of a model of your own are not counted"
        text = reason or f"log.txt of {show_command} {result.attempt_ids[-1]} says why"
        lines.setdefault(reason, f"mfu unknown: {text}")
    return list(lines.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One cell."""

    text: str  # as "1131 [1120, 1142] (7.97x)", "OOM", or NOT_RUN
    short: str  # for a narrow terminal, as "1131 (7.97x)"; the text where somebody chose all of it
    rank: RowRank
    result: Result | None  # None where it was not run

    @property
    def is_bold(self) -> bool:
        """Return whether it is the fastest, or tied with the fastest."""
        return self.rank in (RowRank.BEST, RowRank.TIE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One table."""

    title: str
    heads: tuple[str, ...]  # axes of the rows: headings of the first columns
    columns: tuple[str, ...]  # as "4 GPUs"
    rows: tuple[tuple[tuple[str, ...], tuple[Shown, ...]], ...]  # values of the axes, and cells
    notes: tuple[str, ...]  # what a reader must know
    legend: tuple[str, ...]  # the badges, marks and symbols that occur, to be read after the notes
    table: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Tables to be read together: what all have in common is said once."""

    heading: str  # the setting that all share; empty for a single table
    doubts: tuple[str, ...]  # what all numbers share, above the tables
    tables: tuple[Layout, ...]
    notes: tuple[str, ...]  # of all tables, the legend last, in one line


def document(
    tables: Sequence[Table],
    selection: Selection,
    quantities: Sequence[str] | None = None,
    failed: Failed = stop,
) -> Document:
    """Lay out tables of this selection. One that fails is left out, and `failed` is called. Raises
    StoreError when no other is left.
    """
    doubts = doubts_of([result for table in tables for result in table.results], selection)
    above = [
        f"Every run is in doubt: {reason}. Repeat before deciding." for reason in doubts.shared
    ]
    layouts = []
    for table in tables:
        try:
            layouts.append(lay_out(table, selection, quantities, doubts))
        except Exception as error:  # whatever it is, the other tables are worth showing
            failed(f"table {table_title(table.environment, table.setting)}", error)
    if not layouts:
        raise StoreError("no table: none of this selection can be laid out")
    legend = list(dict.fromkeys(line for layout in layouts for line in layout.legend))
    foot = ["; ".join(legend)] if legend else []
    if len(layouts) == 1:
        alone = replace(layouts[0], notes=(*layouts[0].notes, *foot), legend=())
        return Document(heading="", doubts=tuple(above), tables=(alone,), notes=())
    common = _common([layout.table.setting for layout in layouts])
    environments = _environments([layout.table.environment for layout in layouts])
    is_simulated = all(layout.table.environment.is_simulated for layout in layouts)
    shared = set(layouts[0].notes).intersection(*(layout.notes for layout in layouts))
    once = [line for line in layouts[0].notes if line in shared]
    shown = []
    for layout in layouts:
        own = tuple(line for line in layout.notes if line not in shared)
        text = _title(layout.table, common, environments)
        if is_simulated:
            text = text.removeprefix(SIMULATED)
        shown.append(replace(layout, title=text, notes=own, legend=()))
    heading = f"{SIMULATED if is_simulated else ''}{title(common)}".removesuffix(": ")
    return Document(heading=heading, doubts=tuple(above), tables=tuple(shown), notes=(*once, *foot))


_NO_DOUBTS = Doubts(of={}, shared=())


def lay_out(
    table: Table,
    selection: Selection,
    quantities: Sequence[str] | None = None,
    doubts: Doubts = _NO_DOUBTS,
) -> Layout:
    """Write a table of this selection; each cell holds these quantities, or the usual ones."""
    wanted = quantities or usual(table.results)
    briefly = wanted if quantities else [name for name in wanted if name != "interval"]
    rows = []
    for row in table.rows:
        heads = zip(table.rows_by, row, strict=True)
        cells = [_shown(table, row, column, wanted, briefly, doubts) for column in table.columns]
        rows.append((tuple(_head(table, axis, value) for axis, value in heads), tuple(cells)))
    devices = table.environment.devices
    return Layout(
        title=table_title(table.environment, table.setting),
        heads=tuple(devices if axis == "num_gpus" else axis for axis in table.rows_by),
        columns=tuple(short_title(table, table.columns_by, column) for column in table.columns),
        rows=tuple(rows),
        notes=tuple(notes(table, selection, wanted, doubts)),
        legend=tuple(_legend(table, [cell for _, cells in rows for cell in cells])),
        table=table,
    )


def _head(table: Table, axis: str, value: object) -> str:
    """Return the value of an axis below its name."""
    if axis == "model":
        return short_title(table, (axis,), (value,))
    if axis == "command":
        return program_name(str(value))
    if value in (None, ""):
        return named(axis, value).removeprefix(f"{axis} ")
    return as_typed(value)


def _shown(
    table: Table,
    row: Label,
    column: Label,
    wanted: Sequence[str],
    briefly: Sequence[str],
    doubts: Doubts,
) -> Shown:
    cell = table.cells.get((row, column))
    if cell is None:
        text = MISSING.get(table.environment.origin, NOT_RUN)
        return Shown(text=text, short=text, rank=RowRank.ALONE, result=None)
    marks = SUSPECT if doubts.is_marked(cell.result) else ""
    text, short = cell_text(cell, wanted, marks), cell_text(cell, briefly, marks)
    if briefly is not wanted:
        short = short.replace(f" {TIE}", TIE).replace(f" {OUT}", OUT)
    return Shown(text=text, short=short, rank=cell.rank, result=cell.result)


def _legend(table: Table, cells: Sequence[Shown]) -> Iterator[str]:
    """Explain the badges, marks and symbols that occur."""
    origin = table.environment.origin
    numbers = [cell.result for cell in cells if cell.result and cell.result.throughput is not None]
    texts = {*(cell.text for cell in cells), *symbols_of_repeats(numbers)}
    ranks = {cell.rank for cell in cells}
    if RowRank.TIE in ranks:
        yield f"{TIE} {badges.foot(['tie'])}"
    if RowRank.OUT in ranks:
        yield f"{OUT} {badges.foot(['raced out'])}"
    if RowRank.UNKNOWN in ranks and origin.is_ours:
        yield f"{badges.foot(['single run'])} (sweep.repeats=3 tells)"
    if RowRank.UNKNOWN in ranks and origin is Origin.ELSEWHERE:
        yield "the fastest is not certain where a trial has one row only"
    if not origin.is_ours and not all(result.is_valid for result in table.results):
        yield f"{SUSPECT} {badges.foot(['in doubt'])}"
    yield from map(badges.foot, ([badge] for badge in badges.of_environment(table.environment)))
    for symbol, meaning in MEANINGS.items():
        if symbol in texts:
            yield f"{symbol}: {meaning}"


def _common(settings: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return what all settings share, but for the model, which every title names."""
    common = dict(settings[0])
    common.pop("model", None)
    for setting in settings:
        for axis in list(common):
            if axis not in setting or setting[axis] != common[axis]:
                del common[axis]
    return common


def _title(table: Table, common: Mapping[str, object], environments: Mapping[str, str]) -> str:
    own = {axis: value for axis, value in table.setting.items() if axis not in common}
    parts = table_title(table.environment, own), environments[table.environment.key]
    return ", ".join(part for part in parts if part)


def _environments(environments: Sequence[Environment]) -> dict[str, str]:
    """Return what distinguishes each environment: its host, its versions, or at last its key."""
    different = {environment.key: environment for environment in environments}
    hosts = {environment.host for environment in different.values()}
    texts = {}
    for key, environment in different.items():
        text = f"on {environment.host}" if len(hosts) > 1 else ""
        if len(hosts) < len(different):
            text = f"{text} ({environment.versions})" if text else environment.versions
        texts[key] = text
    if len(different) == 1:
        return dict.fromkeys(different, "")
    num_like = Counter((text, different[key].shares_host) for key, text in texts.items())
    for key, text in texts.items():
        if num_like[text, different[key].shares_host] > 1:
            texts[key] = f"{text}, environment {key}"
    return texts

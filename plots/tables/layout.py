"""Tables as text, before any format writes them: cells, titles, notes and the legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.results import Environment, Result
from analysis.selection import Selection
from analysis.tables.labels import Label
from analysis.tables.table import Rank, Table
from analysis.text import badges
from analysis.text.titles import (
    SIMULATED,
    named,
    program_name,
    short_title,
    table_title,
    title,
)
from plots.parts import Failed, stop
from plots.tables.cells import (
    MEANINGS,
    MISSING,
    NOT_RUN,
    OUT,
    SUSPECT,
    TIE,
    cell_text,
    symbols_of_repeats,
    usual,
)
from plots.tables.notes import Doubts, doubts_of, notes
from scalemark.records.origin import Origin
from scalemark.text.wording import as_typed
from store.errors import StoreError


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
        return Shown(text=text, short=text, rank=Rank.ALONE, result=None)
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

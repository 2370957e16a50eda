"""Tables as text, before any format writes them: cells, titles, notes and the legend."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter

from analysis import badges, titles
from analysis.labels import axes_of
from analysis.pivot import Cell, RowRank, Table
from analysis.results import BaselineRule, Environment, Result, items_per_step, with_number
from analysis.selection import Selection
from plots.source import Failed, stop
from scalemark.abilities import least_replicas
from scalemark.own_model import is_own
from scalemark.records.axes import bare_name
from scalemark.records.measurement import Outcome
from scalemark.records.overrides import ID_DIGITS
from scalemark.records.references import Origin
from scalemark.text.wording import (
    as_typed,
    counted,
    fixed,
    in_all,
    listed,
    shortened,
    without_numbers,
)
from store.errors import StoreError
from store.filters import nearest

NOT_RUN = "–"
NOT_PUBLISHED = "N/A"
NOT_IN_TABLE = "n/a"
SUSPECT = "*"
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
    "HANG": "its steps stopped",
    "TIMEOUT": "took longer than allowed",
    "UNSUP": "not supported by this machine or software",
    "FAIL": "failed",
    "STOP": "interrupted",
    "INVALID": "completed without a usable number",
    NOT_RUN: "not run",
    NOT_PUBLISHED: "not published",
    NOT_IN_TABLE: "not in the imported table",
}
MISSING = {Origin.PUBLISHED: NOT_PUBLISHED, Origin.ELSEWHERE: NOT_IN_TABLE}
RANK_MARKS = {RowRank.TIE: TIE, RowRank.OUT: OUT}

THROUGHPUT = "throughput"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A figure of a result that has a throughput."""

    value: Callable[[Result], float | None]
    # of a value that is known, with its unit, so that cells can be read alone
    write: Callable[[float, Result], str]
    unit: str = ""  # of the value
    unknown: str = ""  # the text where there is no value
    about: str = ""  # for readers of a table, where the name does not say it all

    def text(self, result: Result) -> str:
        """Return the figure as a cell has it."""
        value = self.value(result)
        if value is None:
            return self.unknown
        return self.write(value, result)


def symbols_of_repeats(results: Sequence[Result]) -> list[str]:
    """Return the symbols of repeats that brought no number, each once."""
    outcomes = [outcome for result in results for outcome in result.failed]
    return list(dict.fromkeys(SYMBOLS[Outcome(outcome)] for outcome in outcomes))


def cell_texts(cell: Cell, quantities: Sequence[str], shared: Collection[str]) -> tuple[str, str]:
    """Return `1131 ≈ [1120, 1142] (7.97x)`, and without the interval `1131≈ (7.97x)`; or `OOM`
    twice. A mark is of doubts that not all share: behind the first number about itself, behind a
    speed-up about either side.
    """
    result = cell.result
    if result.throughput is None:
        symbol = SYMBOLS[Outcome(result.outcome)]
        return symbol, symbol
    texts = {}
    for name in quantities:
        text = _figure(result, name, shared)
        if text:
            texts[name] = text
    marks = SUSPECT if _own_doubts(result, shared) else ""
    if THROUGHPUT not in texts:
        text = f"{', '.join(texts.values()) or NOT_RUN}{marks}"
        return text, text
    rank = RANK_MARKS.get(cell.rank, "")
    after_space = f" {rank}" if rank else ""
    number_text = texts.pop(THROUGHPUT) + marks
    interval = f" {texts.pop('interval')}" if "interval" in texts else ""
    others = f" ({', '.join(texts.values())})" if texts else ""
    return f"{number_text}{after_space}{interval}{others}", f"{number_text}{rank}{others}"


def chosen(names: str, results: Sequence[Result]) -> tuple[str, ...]:
    """Split a list with commas; programs' numbers are known, too. Raises StoreError for others."""
    wanted = tuple(dict.fromkeys(map(str.strip, names.split(","))))
    known = dict.fromkeys((*QUANTITIES, "loss"))
    for result in results:
        known |= dict.fromkeys(result.metrics)
    for name in wanted:
        if name not in known:
            near = nearest(name[:100], list(known))
            raise StoreError(f"{name[:100] or 'an empty name'}: no such quantity; {near}")
    return wanted


def usual(results: Sequence[Result]) -> tuple[str, ...]:
    """Return throughput and speed-up; the spread too where trials were repeated. On one number of
    devices a speed-up against itself says nothing.
    """
    names = [THROUGHPUT]
    is_compared = len({result.num_gpus for result in results}) > 1
    is_repeated = False
    for result in results:
        is_repeated |= len(result.repeats) > 1
        is_compared |= result.baseline is None or result.baseline.trial_id != result.trial_id
    if is_repeated:
        names.append("interval")
    if is_compared:
        names.append("speed-up")
    return tuple(names)


def _figure(result: Result, name: str, shared: Collection[str]) -> str:
    """Return a figure; one that is relative to a baseline has a mark where it is in doubt."""
    text = quantity(name).text(result)
    if not text or name not in _RELATIVE:
        return text
    if badges.is_superlinear(result) or set(result.speed_up_doubts).difference(shared):
        return f"{text}{SUSPECT}"
    return text


_RELATIVE = ("speed-up", "efficiency")  # to a baseline


def _step_ms(result: Result) -> float | None:
    items = items_per_step(result)
    if not items or not result.throughput:
        return None
    return 1000 * items / result.throughput


def _memory(field: str, about: str) -> Quantity:
    return Quantity(
        value=lambda result: _times(getattr(result.usage, field), 2**-20),
        write=lambda value, _: f"{titles.number(value)} MiB",
        unit="MiB",
        unknown=UNKNOWN,
        about=about,
    )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def quantity(name: str) -> Quantity:
    """Return a known quantity, or a number that programs printed."""
    if name in QUANTITIES:
        return QUANTITIES[name]
    return Quantity(
        value=lambda result: titles.mean_printed(result, name),
        write=lambda value, _: f"{name} {value:.4g}",
        unknown=f"{name} {UNKNOWN}",
        about=titles.METRICS_ABOUT,
    )


QUANTITIES: Mapping[str, Quantity] = {
    THROUGHPUT: Quantity(
        value=attrgetter("throughput"),
        write=lambda value, result: titles.number(
            value, exactly=result.environment.origin is Origin.PUBLISHED
        ),
        about="geometric mean of the repeats",
    ),
    "interval": Quantity(
        value=attrgetter("throughput"),
        write=lambda value, result: titles.spread(result.repeats, result.low, result.high, value),
        about="[a, b] is the 95 % confidence interval over repeats, (a to b, n) their range",
    ),
    "speed-up": Quantity(
        value=attrgetter("speed_up"), write=lambda value, _: f"{fixed(value, 2)}x"
    ),
    "efficiency": Quantity(
        value=lambda result: _times(result.efficiency, 100),
        write=lambda value, _: f"{fixed(value, 1)} %",
        unit="%",
        about="speed-up per device, relative to the baseline",
    ),
    "repeats": Quantity(
        value=lambda result: len(result.repeats), write=lambda value, _: f"n={value}"
    ),
    "ms/step": Quantity(
        value=_step_ms,
        write=lambda value, _: f"{titles.number(value)} ms",
        unknown=UNKNOWN,
        about="milliseconds per step, from the throughput",
    ),
    "per-device": Quantity(
        value=lambda result: (
            None if result.counts_steps else (result.throughput or 0.0) / result.num_gpus
        ),
        write=lambda value, result: (
            f"{titles.number(value)}/{result.environment.device_kind.singular}"
        ),
    ),
    "mfu": Quantity(
        value=lambda result: _times(result.usage.mfu, 100),
        write=lambda value, _: f"{value:.3g} %",
        unit="%",
        unknown=UNKNOWN,
        about="model FLOPs utilization, relative to the fastest matrix product of the device",
    ),
    "memory": _memory(
        "memory_bytes", "peak of the fullest GPU; on CPU devices that of the trial's process"
    ),
    "variables": _memory("variable_bytes", "trained variables on the fullest device"),
    "optimizer-state": _memory("optimizer_state_bytes", "optimizer state on the fullest device"),
}
"""Quantities by the names that `--show` takes, in the order in which they are listed."""

_MOST_NAMED = 3  # strategies or reasons in a note


def _own_doubts(result: Result, shared: Collection[str]) -> list[str]:
    """Return the reasons against a number that not all share: its cell has a mark."""
    return [reason for reason in result.doubts if reason not in shared]


def notes(
    table: Table,
    selection: Selection,
    wanted: Sequence[str],
    shared: Collection[str],
    *,
    has_headings: bool = False,
) -> Iterator[str]:
    """Yield what a reader of this table of this selection must know, but for the doubts that all
    share. With `has_headings` each quantity has a column.
    """
    yield from titles.table_facts(table)
    yield from selection.notes
    if any(result.throughput for result in table.results):
        if not has_headings:
            yield f"cells: {_cells_in_words(wanted, table)}"
        yield from _how_to_read(table, wanted, selection.baseline)
    if "mfu" in wanted:
        yield from _unknown_mfu(table.results, selection.show_command)
    if table.environment.origin.is_ours:
        is_relative = bool(set(_RELATIVE).intersection(wanted))
        yield from _attempts_to_see(table.results, selection, shared, is_relative=is_relative)


def _how_to_read(table: Table, quantities: Sequence[str], rule: BaselineRule) -> Iterator[str]:
    is_repeated = any(len(result.repeats) > 1 for result in table.results)
    for name in quantities:
        about = quantity(name).about
        if name == "interval" and not titles.has_interval(table.results):
            continue
        if table.environment.origin is Origin.ELSEWHERE:
            about = _OF_ROWS.get(name, about)
        if about and (name != THROUGHPUT or is_repeated):
            yield f"{table.unit if name == THROUGHPUT else name}: {about}"
    if set(_RELATIVE).intersection(quantities):
        yield from _baseline_notes(table, rule)


_OF_ROWS = {
    THROUGHPUT: "geometric mean of the rows that agree in all axes",
    "interval": "[a, b] is the 95 % confidence interval over these rows, (a to b, n) their range",
}
"""What quantities are in imported tables: how many processes made a row is unknown."""


def _cells_in_words(quantities: Sequence[str], table: Table) -> str:
    """Return the content of a cell, as `images/s [interval] (speed-up)`."""
    if THROUGHPUT not in quantities:
        return ", ".join(quantities)
    others = [name for name in quantities if name not in (THROUGHPUT, "interval")]
    text = table.unit
    if "interval" in quantities:
        text += " [interval]" if titles.has_interval(table.results) else " (range of n repeats)"
    if others:
        return f"{text} ({', '.join(others)})"
    return text


def _baseline_notes(table: Table, rule: BaselineRule) -> Iterator[str]:
    """Name what speed-ups are against, and the options that find a baseline where there is none."""
    by_rule: dict[tuple[bool, BaselineRule], list[Result]] = {}
    without: dict[str, None] = {}
    having: set[str] = set()
    has_one_device = False
    for result in table.results:
        if result.throughput is None:
            continue
        has_one_device |= result.num_gpus == 1
        if result.baseline is None:
            without[result.strategy] = None
            continue
        having.add(result.strategy)
        if rule is BaselineRule.SAME and least_replicas(result.axes["variable_update"]) > 1:
            has_one = result.baseline.num_gpus == 1
            taken = BaselineRule.BEST if has_one else BaselineRule.FEWEST
            by_rule.setdefault((True, taken), []).append(result)
        else:
            by_rule.setdefault((False, rule), []).append(result)
    for (is_wide, taken), results in sorted(by_rule.items()):
        which = ""
        if is_wide:
            names = sorted({result.strategy for result in results})
            which = f" of {listed(names)}, which cannot run on 1"
        yield f"speed-up{which}: against {_baseline_in_words(table, results, taken)}"
    if not without:
        return
    which = ""
    if rule is BaselineRule.SAME:
        lacking = [f"some rows of {name}" if name in having else name for name in without]
        which = f" of {', '.join(shortened(lacking, 4))}"
    ways = [f"no speed-up{which}: no number on {table.environment.counted(1)}"]
    if rule is not BaselineRule.BEST and has_one_device:
        ways.append("--baseline best compares with the fastest on 1")
    if rule is not BaselineRule.FEWEST:
        ways.append("--baseline fewest compares with the fewest it ran on")
    yield "; ".join(ways)


def _baseline_in_words(table: Table, results: Sequence[Result], rule: BaselineRule) -> str:
    device = table.environment.counted(1)
    if rule is BaselineRule.SAME:
        on_one_host = ""
        if any(result.hosts > 1 for result in results):
            on_one_host = " of one host"
        return f"the same strategy on {device}{on_one_host}"
    baselines = {each.baseline.trial_id: each.baseline for each in results if each.baseline}
    if rule is BaselineRule.FEWEST:
        counts = sorted({(baseline.num_gpus, baseline.hosts) for baseline in baselines.values()})
        fewest = " or ".join(table.environment.counted(*count) for count in counts)
        return f"the same strategy on the fewest it ran on: {fewest}"
    if len(baselines) > 1:
        return f"the fastest on {device} of the same model and setting"
    (best,) = baselines.values()
    throughput = titles.number(best.throughput or 0.0)
    return f"the fastest on {device}: {best.strategy}, {throughput} {table.unit}"


def _attempts_to_see(
    results: Sequence[Result],
    selection: Selection,
    shared: Collection[str],
    *,
    is_relative: bool,  # baselines, which a filter may have left out, are behind its speed-ups
) -> Iterator[str]:
    """Yield a note for each kind of doubt, with the command that shows an attempt behind it."""
    show = selection.show_command
    reasons: dict[str, Result] = {}
    num_doubted: Counter[str] = Counter()  # results by the text of a reason without numbers
    failed, partly = [], []
    for result in results:
        if result.throughput is None:
            failed.append(result)
            continue
        if result.failed:
            partly.append(result)
        for reason in _own_doubts(result, shared):
            reasons.setdefault(reason, result)
        num_doubted.update({without_numbers(reason) for reason in _own_doubts(result, shared)})
        if is_relative and result.baseline is not None:
            for reason in _own_doubts(result.baseline, shared):
                reasons.setdefault(reason, result.baseline)
    attempts = {
        reason: result.attempt_with(reason) or result.attempt_ids[0]
        for reason, result in reasons.items()
    }
    kinds: dict[str, list[str]] = {}  # reasons by their text without numbers
    for reason in reasons:
        kinds.setdefault(without_numbers(reason), []).append(reason)
    shown = list(kinds.values())
    for reason, *_ in shown[:_MOST_NAMED]:
        num_more = num_doubted[without_numbers(reason)] - 1
        more = f"; {num_more} more like it" if num_more > 0 else ""
        yield f"{SUSPECT} {reason}: see {show} {attempts[reason]}{more}"
    others = [reason for kind in shown[_MOST_NAMED:] for reason in kind]
    if others:
        more = counted(len(others), "more reason")
        first, *further = dict.fromkeys(str(attempts[reason]) for reason in others)
        also = f", and attempts {', '.join(shortened(further, _MOST_NAMED))}" if further else ""
        yield f"{SUSPECT} {more}: see {show} {first}{also}"
    if partly:
        symbols = ", ".join(symbols_of_repeats(partly))
        trial = partly[0].trial_id[:ID_DIGITS]
        yield f"some repeats failed ({symbols}): see {show} {trial}"
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
            reason = "its FLOPs are not known; give command.flops_per_item"
            if result.axes["flops_per_item"]:
                reason = "no undisturbed peak is known: run scalemark probe and read --sweep"
                if not result.axes["precision"]:
                    reason = (
                        "its precision is not known; give it, and {precision} in the command, or "
                        "env PRECISION={precision} before it"
                    )
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
    result: Result | None = None
    numbers: Mapping[str, float | str | None] = field(default_factory=dict)
    """By what is added to the heading of its column: 1131.2 by `images/s`, 7.97 by `speed-up`."""

    @property
    def is_bold(self) -> bool:
        """Return whether it is the fastest, or tied with the fastest."""
        return self.rank in (RowRank.BEST, RowRank.TIE)


Row = tuple[tuple[str, ...], tuple[Shown, ...]]
"""Values of the axes, and cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One table."""

    title: str
    heads: tuple[str, ...]  # axes of the rows: headings of the first columns
    columns: tuple[str, ...]  # as "4 GPUs"
    rows: tuple[Row, ...]
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
    *,
    as_curves: bool = True,
) -> Document:
    """Lay out tables of this selection. One that fails is left out, and `failed` is called. Raises
    StoreError when no other is left.

    Where nothing but the number of GPUs varies in any of them, each figure has a column, unless
    quantities are given or `as_curves` is not set.
    """
    as_curves = as_curves and quantities is None
    numbers: list[Result] = []
    for table in tables:
        numbers += with_number(table.results)
        is_curve = len(table.rows) == 1 and table.columns_by == ("num_gpus",)
        as_curves &= is_curve and len(table.columns) > 1
    above, doubts = _common_doubts(numbers)
    layouts = []
    legend: dict[str, None] = {}
    for table in tables:
        try:
            layout = lay_out(table, selection, quantities, doubts, as_curve=as_curves)
        except Exception as error:  # whatever it is, the other tables are worth showing
            failed(f"table {titles.table_title(table.environment, table.setting)}", error)
            continue
        layouts.append(layout)
        legend.update(dict.fromkeys(layout.legend))
    if not layouts:
        raise StoreError("no table: none of this selection can be laid out")
    foot = ("; ".join(legend),) if legend else ()
    if len(layouts) == 1:
        alone = replace(layouts[0], notes=(*layouts[0].notes, *foot))
        return Document(heading="", doubts=tuple(above), tables=(alone,), notes=())
    heading, named = _named_apart([layout.table for layout in layouts])
    shared = in_all([layout.notes for layout in layouts])
    shown = []
    for layout, title in zip(layouts, named, strict=True):
        own = tuple(line for line in layout.notes if line not in shared)
        shown.append(replace(layout, title=title, notes=own))
    every_note = (*shared, *foot)
    return Document(heading=heading, doubts=tuple(above), tables=tuple(shown), notes=every_note)


def _common_doubts(numbers: Sequence[Result]) -> tuple[list[str], set[str]]:
    """Return sentences about the doubts that every number of ours shares, of several, and all
    their wordings: of a busy machine each number names other shares.
    """
    sentences: list[str] = []
    shared: set[str] = set()
    if len(numbers) < 2 or not numbers[0].environment.origin.is_ours:
        return sentences, shared
    wordings: dict[str, dict[str, None]] = {}  # by their text without numbers
    for result in numbers:
        for reason in result.doubts:
            wordings.setdefault(without_numbers(reason), {})[reason] = None
    for reasons in wordings.values():
        if all(not reasons.keys().isdisjoint(result.doubts) for result in numbers):
            which = ", for example" if len(reasons) > 1 else ""
            first = next(iter(reasons))
            do = "" if ";" in first else " Repeat before deciding."  # most say what to do
            sentences.append(f"Every number is in doubt{which}: {first}.{do}")
            shared.update(reasons)
    return sentences, shared


def lay_out(
    table: Table,
    selection: Selection,
    quantities: Sequence[str] | None = None,
    shared: Collection[str] = (),
    *,
    as_curve: bool = False,
) -> Layout:
    """Write a table of this selection; each cell holds these quantities, or the usual ones. What
    `shared` doubts say of all numbers marks none. `as_curve` is a row for each number of GPUs.
    """
    if as_curve:
        able = with_number(table.results)
        known = [THROUGHPUT]
        for name in _OF_CURVES:
            if any(QUANTITIES[name].text(result) not in ("", UNKNOWN) for result in able):
                known.append(name)
        wanted: Sequence[str] = known
        rows = _rows_of_curve(table, wanted, shared)
    else:
        wanted = quantities or usual(table.results)
        rows = _rows(table, wanted, shared, is_chosen=bool(quantities))
    title = titles.table_title(table.environment, table.setting)
    devices = table.environment.devices
    if as_curve:
        label = titles.short_title(table, table.rows_by, table.rows[0])
        if label != table.setting.get("model"):  # a program may be both
            title = ", ".join(filter(None, (title, label)))
        heads: tuple[str, ...] = (devices,)
        per_device = f"per {table.environment.device_kind.singular.removeprefix('simulated ')}"
        shown_as = {THROUGHPUT: table.unit, "per-device": per_device, "mfu": "MFU"}
        if table.results[0].counts_steps:
            shown_as["speed-up"] = "speed-up in steps"
        columns = [shown_as.get(name, name) for name in wanted]
    else:
        heads = tuple(devices if axis == "num_gpus" else bare_name(axis) for axis in table.rows_by)
        columns = [titles.short_title(table, table.columns_by, label) for label in table.columns]
    return Layout(
        title=title,
        heads=heads,
        columns=tuple(columns),
        rows=tuple(rows),
        notes=tuple(notes(table, selection, wanted, shared, has_headings=as_curve)),
        legend=tuple(_legend(table, rows)),
        table=table,
    )


def _rows(
    table: Table, wanted: Sequence[str], shared: Collection[str], *, is_chosen: bool
) -> list[Row]:
    """Write all of a cell also for a narrow terminal where somebody has chosen what it holds."""
    missing = MISSING.get(table.environment.origin, NOT_RUN)
    not_there = Shown(text=missing, short=missing, rank=RowRank.ALONE)
    called = {THROUGHPUT: table.unit}  # which looks at all cells
    rows = []
    for row in table.rows:
        heads = map(partial(_head, table), table.rows_by, row)
        cells = []
        for column in table.columns:
            cell = table.cells.get((row, column))
            if cell is None:
                cells.append(not_there)
                continue
            text, short = cell_texts(cell, wanted, shared)
            if is_chosen:
                short = text
            numbers = _numbers(cell.result, wanted, called)
            shown = Shown(
                text=text, short=short, rank=cell.rank, result=cell.result, numbers=numbers
            )
            cells.append(shown)
        rows.append((tuple(heads), tuple(cells)))
    return rows


def _numbers(
    result: Result, wanted: Sequence[str], called: Mapping[str, str]
) -> dict[str, float | str | None]:
    """Return the figures of a cell by their names, with their units, or as they are `called`; of a
    spread its ends. A cell that has none has its symbol in the first place.
    """
    is_known = result.throughput is not None
    numbers: dict[str, float | str | None] = {}
    for name in wanted:
        if name == "interval":
            around = result.throughput or 0.0
            ends = titles.spread_ends(result.repeats, result.low, result.high, around)
            numbers["low"], numbers["high"] = ends or (None, None)
            numbers["n"] = len(result.repeats)
            continue
        heading = called.get(name, f"{name} {quantity(name).unit}".strip())
        numbers[heading] = quantity(name).value(result) if is_known else None
    if not is_known:
        numbers[next(iter(numbers))] = SYMBOLS[Outcome(result.outcome)]
    return numbers


_OF_CURVES = ("per-device", "speed-up", "mfu", "memory")


def _rows_of_curve(table: Table, names: Sequence[str], shared: Collection[str]) -> list[Row]:
    (row,) = table.rows
    rows: list[Row] = []
    for column in table.columns:
        cell = table.cells[row, column]
        text, short = cell_texts(cell, (THROUGHPUT, "interval"), shared)
        numbers = _numbers(cell.result, (THROUGHPUT, "interval"), {THROUGHPUT: ""})
        cells = [Shown(text=text, short=short, rank=cell.rank, result=cell.result, numbers=numbers)]
        for name in names[1:]:
            figure, value = "", None
            if cell.result.throughput is not None:
                figure = _figure(cell.result, name, shared).split("/")[0]
                value = quantity(name).value(cell.result)
            numbers = {quantity(name).unit: value}
            cells.append(Shown(text=figure, short=figure, rank=RowRank.ALONE, numbers=numbers))
        rows.append(((str(column[0]),), tuple(cells)))
    return rows


def _head(table: Table, axis: str, value: object) -> str:
    """Return the value of an axis below its name."""
    if axis == "model":
        return titles.short_title(table, (axis,), (value,))
    if axis == "command":
        return titles.program_name(str(value))
    if value in (None, ""):
        return titles.named(axis, value).removeprefix(f"{bare_name(axis)} ")
    return as_typed(value)


def _legend(table: Table, rows: Sequence[Row]) -> Iterator[str]:
    """Explain the badges, marks and symbols that occur."""
    origin = table.environment.origin
    texts, ranks = set(), set()
    for _, cells in rows:
        for cell in cells:
            texts.add(cell.text)
            ranks.add(cell.rank)
    texts.update(symbols_of_repeats(with_number(table.results)))
    if any(TIE in text for text in texts):
        yield f"{TIE} {badges.foot(['tie'])}"
    if any(OUT in text for text in texts):
        yield f"{OUT} a race stopped it: it was unlikely to win"
    used = set().union(*map(badges.of_result, table.results))
    if "single run" in used:
        yield badges.foot(["single run"])
    if RowRank.UNKNOWN in ranks and origin is Origin.ELSEWHERE:
        yield "the fastest is not certain where a trial has one row only"
    is_doubted = any(result.doubts or result.speed_up_doubts for result in table.results)
    if not origin.is_ours and is_doubted:
        yield f"{SUSPECT} its source doubts it"
    if "superlinear" in used:
        mark = f"{SUSPECT} " if any(SUSPECT in text for text in texts) else ""
        yield f"{mark}{badges.foot(['superlinear'])}"
    for badge in badges.of_environment(table.environment):
        yield badges.foot([badge])
    for symbol, meaning in MEANINGS.items():
        if symbol in texts:
            yield f"{symbol}: {meaning}"


_AXES = ("model", "strategy", "num_gpus", "hosts", "batch_size", "precision")


def varied_axes(results: Sequence[Result]) -> list[str]:
    """Return the axes that differ between trials, the usual ones first."""
    named = {"id", "curve"}.union(*(result.strategy_axes for result in results))
    varied = []
    for axis in dict.fromkeys((*_AXES, *axes_of(results))):
        values = {str(result.axes.get(axis)) for result in results}
        is_usual = len(values) > 1 or axis in ("model", "strategy", "num_gpus")
        if is_usual and axis not in named:
            varied.append(axis)
    return varied


def common_setting(tables: Sequence[Table]) -> dict[str, object]:
    """Return the axes that are alike in all tables, but for the model, which every title names."""
    common = {axis: value for axis, value in tables[0].setting.items() if axis != "model"}
    for table in tables:
        for axis in list(common):
            if axis not in table.setting or table.setting[axis] != common[axis]:
                del common[axis]
    return common


def _named_apart(tables: Sequence[Table]) -> tuple[str, list[str]]:
    """Return what the settings of all tables share, and what tells each from the others."""
    common = common_setting(tables)
    is_simulated = all(table.environment.is_simulated for table in tables)
    environments = _environments([table.environment for table in tables])
    named = []
    for table in tables:
        own = {axis: value for axis, value in table.setting.items() if axis not in common}
        text = titles.table_title(table.environment, own)
        if is_simulated:
            text = text.removeprefix(titles.SIMULATED)
        named.append(", ".join(filter(None, (text, environments[table.environment.key]))))
    heading = titles.title(common)
    if is_simulated:
        heading = f"{titles.SIMULATED}{heading}".removesuffix(": ")
    return heading, named


def _environments(environments: Sequence[Environment]) -> dict[str, str]:
    """Return what distinguishes each environment: its host, its versions, or at last its key."""
    different = {environment.key: environment for environment in environments}
    if len(different) == 1:
        return dict.fromkeys(different, "")
    hosts = {environment.host for environment in environments}
    texts = {}
    for key, environment in different.items():
        text = f"on {environment.host}" if len(hosts) > 1 else ""
        if len(hosts) < len(different):
            text = f"{text} ({environment.versions})" if text else environment.versions
        texts[key] = text
    num_like = Counter((texts[key], of.shares_host) for key, of in different.items())
    for key, environment in different.items():
        if num_like[texts[key], environment.shares_host] > 1:
            texts[key] += f", environment {key}"
    return texts

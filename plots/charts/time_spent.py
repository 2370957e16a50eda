"""Draws where the time of each attempt goes, from its start to its end, and that of its steps and
ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from analysis.pivot import pivot
from analysis.results import Result
from analysis.tables.table import Table
from analysis.text.titles import headings
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.lettering import width_in
from plots.pictures.rows import BAR_IN, HATCHES, beside, left_in, name_rows, row_name, rows_in
from plots.pictures.sheet import Sheet
from plots.pictures.theme import FOOTER_PT, Palette
from plots.pictures.typical import NOT_ALL, at_most, typical
from plots.source import Source
from plots.tables.cells import SYMBOLS
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Outcome, Phase
from store.reading.queries import Row

ABOUT = (
    "where the time goes: start, tracing, compiling, warm-up, measuring; waiting for data; and "
    "by class of op"
)

MOST_TRIALS = 24
_SEEN = 1.0  # percent of the window: less cannot be seen in a picture
MOST_CLASSES = 6  # of ops; more become "the rest"
_ATTEMPT_PARTS = (
    "start",
    "tracing",
    "first call (compiling)",
    "warm-up",
    "measured window",
    "the rest",
)
_START, _TRACE, _FIRST_CALL, _WARM_UP, _WINDOW, _REST = _ATTEMPT_PARTS
_WAITING, _COMPUTING = "waiting for data", "computing"
_OTHER_OPS = "the rest of the ops"
_UNKNOWN = "not known"
_ORDER = (*_ATTEMPT_PARTS, _UNKNOWN, _WAITING, _COMPUTING)

Shares = Mapping[str, float]
"""Lengths of the parts of one bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """One attempt that is typical of its trial."""

    result: Result
    attempt: Row
    parts_s: Shares  # what it measured; no part that is not known
    rest_s: float | None  # what else it took; None when nobody saw it end

    @property
    def symbol(self) -> str:
        outcome = Outcome(self.attempt["outcome"])
        return "" if outcome is Outcome.COMPLETED else SYMBOLS[outcome]

    @property
    def bar_s(self) -> Shares:
        """Return its parts and the rest, which is a part of its own where all others are known."""
        if not self.rest_s:
            return self.parts_s
        is_known = len(self.parts_s) == len(_ATTEMPT_PARTS) - 1
        return {**self.parts_s, (_REST if is_known else _UNKNOWN): self.rest_s}


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model, setting and machine, and one more where there are profiles."""
    tables = pivot(source.results)
    tables = [table for table in tables if any(result.attempt_ids for result in table.results)]
    if not tables:
        raise NothingToShow("published figures have no attempts")
    for table, name in zip(tables, file_names(tables), strict=True):
        able = [result for result in table.results if result.attempt_ids]
        kept, left_out = at_most(able, MOST_TRIALS)
        found = _spent(source, kept)
        yield _of_attempts(table, name, found, left_out, palette)
        profiled = [one for one in found if op_shares(one.attempt)]
        if profiled:
            yield _of_profiles(table, f"{name}-ops", profiled, left_out, palette)


def _spent(source: Source, results: Sequence[Result]) -> list[Spent]:
    attempts = [typical(source, result) for result in results]
    samples = source.steps([attempt["attempt"] for attempt in attempts])
    found = []
    for result, attempt in zip(results, attempts, strict=True):
        parts_s = attempt_parts_s(attempt, samples.get(attempt["attempt"], []))
        rest_s = None
        if attempt["duration_s"] is not None:
            rest_s = max(attempt["duration_s"] - sum(parts_s.values()), 0.0)
        found.append(Spent(result=result, attempt=attempt, parts_s=parts_s, rest_s=rest_s))
    return found


def attempt_parts_s(attempt: Row, samples: Sequence[StepSample]) -> dict[str, float]:
    """Return the parts that are stored, in their order; none of them without a measurement."""
    first_s, trace_s, call_s = (
        attempt[name] for name in ("time_to_first_step_s", "trace_s", "first_step_s")
    )
    found = {_TRACE: trace_s, _FIRST_CALL: call_s, _WINDOW: attempt["window_s"]}
    if first_s is not None:  # of a user's program no more is known
        found[_START] = max(first_s - (trace_s or 0.0) - (call_s or 0.0), 0.0)
    window = [sample.start_s for sample in samples if sample.phase == Phase.MEASURE]
    if window:
        found[_WARM_UP] = max(window[0] - samples[0].start_s, 0.0)
    return {name: found[name] for name in _ATTEMPT_PARTS if found.get(name) is not None}


def _of_attempts(
    table: Table, name: str, found: Sequence[Spent], notes: Sequence[str], palette: Palette
) -> Picture:
    sheet = Sheet(palette)
    sheet.heading(*headings(table, "where the time goes"))
    shares = [_shares_of_window(one) for one in found]
    if not any(share.get(_WAITING, 0.0) > _SEEN for share in shares):
        shares = []  # nobody waited, or nothing is known of it, as of a user's program
    attempts, steps = _axes(sheet, table, found, is_single=not shares)
    bars = [one.bar_s for one in found]
    _stack_bars(attempts, bars, _ORDER, palette)
    _mark_failures(attempts, found, palette)
    attempts.set_xlim(0, 1.03 * max(sum(bar.values()) for bar in bars) or 1)
    attempts.set_xlabel("s of an attempt")
    if steps is not None:
        _stack_bars(steps, shares, _ORDER, palette)
        steps.set_xlabel("% of the window")
    sheet.gap(0.42)
    _legend(sheet, _ORDER, [*bars, *shares])
    return Picture(
        name=name,
        figure=sheet.finished(),
        results=table.results,
        marks=[NOT_ALL] if notes else [],
        about=[*notes, *_remarks(found)],
    )


def _shares_of_window(one: Spent) -> Shares:
    """Return percent of the window, by what it was spent on; nothing where that is not known."""
    share = one.attempt["data_wait_share"]
    return {} if share is None else {_WAITING: 100 * share, _COMPUTING: 100 - 100 * share}


def _axes(
    sheet: Sheet, table: Table, found: Sequence[Spent], *, is_single: bool = False
) -> tuple[Axes, Axes | None]:
    """Return two axes with a row per trial and space for symbols between them, of which the right
    one is in percent, or the left one alone.
    """
    names = [row_name(one.result) for one in found]
    between_in = 0.2 + max(width_in(one.symbol, FOOTER_PT) for one in found)
    sheet.text(f"strategy x number of {table.environment.devices}", color=sheet.palette.faint)
    if is_single:
        left = sheet.axes(rows_in(names), left_in(names), between_in)
        name_rows(left, names)
        left.xaxis.set_major_locator(MaxNLocator(6))
        return left, None
    left, right = beside(sheet, rows_in(names), left_in(names), between_in, (5, 3))
    name_rows(left, names)
    name_rows(right, names)
    right.tick_params(labelleft=False)
    right.set_xlim(0, 100)
    right.xaxis.set_major_locator(FixedLocator([0, 50, 100]))
    left.xaxis.set_major_locator(MaxNLocator(4))
    return left, right


def _remarks(found: Sequence[Spent]) -> list[str]:
    num_unseen = sum(one.rest_s is None for one in found)
    num_unmeasured = sum(not one.parts_s for one in found)
    remarks = []
    if any(len(one.result.repeats) > 1 for one in found):
        remarks.append("of the repeats of a trial the one with the median throughput is drawn")
    if num_unmeasured:
        remarks.append(f"without a measurement: {num_unmeasured} of {len(found)}")
    if num_unseen:
        remarks.append(f"nobody saw the end of {num_unseen} of {len(found)}: no bar, or a part")
    return remarks


def _mark_failures(axes: Axes, found: Sequence[Spent], palette: Palette) -> None:
    """Write the outcome at the end of its row, outside the axes."""
    beyond = axes.get_yaxis_transform() + ScaledTranslation(0.04, 0, axes.figure.dpi_scale_trans)
    style: dict[str, Any] = {"va": "center_baseline", "fontsize": FOOTER_PT, "color": palette.ink}
    for center_in, one in zip(axes.get_yticks(), found, strict=True):
        axes.text(1, center_in, one.symbol, transform=beyond, **style)


def _of_profiles(
    table: Table, name: str, found: Sequence[Spent], notes: Sequence[str], palette: Palette
) -> Picture:
    """Draw shares, not seconds: profiling costs time itself."""
    classes, shares = _largest([op_shares(one.attempt) for one in found])
    sheet = Sheet(palette)
    sheet.heading(*headings(table, "time in ops"))
    of_ops, of_step = _axes(sheet, table, found)
    assert of_step is not None  # both were asked for
    _stack_bars(of_ops, shares, classes, palette)
    of_ops.set_xlim(0, 100)
    of_ops.set_xlabel("% of the time in ops")
    exposed = [exposed_share(one.attempt) for one in found]
    of_step.barh(of_step.get_yticks(), exposed, height=BAR_IN, color=palette.ink)
    of_step.set_xlabel("% of step with\nreduction alone")
    sheet.gap(0.55)
    _legend(sheet, classes, shares)
    remark = (
        "of profiled steps; the time in ops is summed over devices, and TensorFlow records all "
        "but its cheapest ops"
    )
    return Picture(
        name=name,
        figure=sheet.finished(),
        results=table.results,
        marks=[NOT_ALL] if notes else [],
        about=[*notes, remark],
    )


def op_shares(attempt: Row) -> dict[str, float]:
    """Return percent of the time in ops by class; nothing without a profile."""
    seconds: Shares = (attempt["recorded_profile"] or {}).get("op_class_s", {})
    whole_s = sum(seconds.values())
    if not whole_s:
        return {}
    return {op_class: 100 * of_class_s / whole_s for op_class, of_class_s in seconds.items()}


def exposed_share(attempt: Row) -> float:
    """Return percent of the profiled step in which nothing but a reduction ran: the most that
    another strategy could win.
    """
    profile = attempt["recorded_profile"]
    return 100 * profile["exposed_reduction_s"] / profile["step_s"] if profile["step_s"] else 0.0


def _largest(rows: Sequence[Shares]) -> tuple[list[str], list[Shares]]:
    """Return the classes with the largest shares, and what each row has of them; all others are
    one.
    """
    totals: dict[str, float] = {}
    for row in rows:
        for name, share in row.items():
            totals[name] = totals.get(name, 0.0) + share
    classes = sorted(totals, key=lambda name: -totals[name])[:MOST_CLASSES]
    found: list[Shares] = []
    for row in rows:
        kept = {name: row[name] for name in classes if name in row}
        rest = sum(share for name, share in row.items() if name not in classes)
        found.append(kept | {_OTHER_OPS: rest} if rest else kept)
    if len(totals) > len(classes):
        classes.append(_OTHER_OPS)
    return classes, found


def _stack_bars(axes: Axes, rows: Sequence[Shares], order: Sequence[str], palette: Palette) -> None:
    """Draw a bar per row; its parts in this order."""
    left = [0.0] * len(rows)
    for part in order:
        lengths = [row.get(part, 0.0) for row in rows]
        if any(lengths):
            look = _look(part, order, palette)
            axes.barh(axes.get_yticks(), lengths, left=left, height=BAR_IN, label=part, **look)
        left = [start + length for start, length in zip(left, lengths, strict=True)]


def _look(part: str, order: Sequence[str], palette: Palette) -> dict[str, Any]:
    """Let neighbors differ in color and in hatch, so that they differ in grey."""
    edge = {"edgecolor": palette.faint, "linewidth": 0.8, "linestyle": ":"}
    plain = {
        _UNKNOWN: {"facecolor": palette.ground, **edge},
        _WAITING: {"facecolor": palette.ink, "linewidth": 0},
        _COMPUTING: {"facecolor": palette.tint(palette.faint, 0.4), "linewidth": 0},
    }
    if part in plain:
        return plain[part]
    index = order.index(part)
    return {
        "facecolor": palette.color(index),
        "edgecolor": palette.ground,
        "linewidth": 0.5,
        "hatch": HATCHES[index % len(HATCHES)],
    }


def _legend(sheet: Sheet, order: Sequence[str], rows: Sequence[Shares]) -> None:
    shown = [part for part in order if any(row.get(part) for row in rows)]
    sheet.legend([Patch(**_look(part, order, sheet.palette)) for part in shown], shown)

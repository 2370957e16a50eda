"""Where the time of each attempt goes, from its start to its end, and that of its ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.pivot import Table, varied_tables
from analysis.titles import headings
from plots import figure as figures
from plots.drawing import NothingToShow, Picture, file_names
from plots.figure import HATCHES, SMALL_PT, Palette
from plots.lines import at_most, name_rows, row_names, rows_in, typical
from plots.source import PlotSource
from plots.tables.cells import MEANINGS, SYMBOLS
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Outcome, Phase
from store.reading.queries import Row

ABOUT = "where the time goes: start, tracing, first call, warm-up, measuring; and by class of op"

MOST_CLASSES = 6  # of ops; more become "other ops"
_START, _TRACE, _FIRST_CALL = "start", "tracing", "first call (compiling)"
_WARM_UP, _WINDOW, _REST = "warm-up", "measured window", "the rest"
_PARTS = (_START, _TRACE, _FIRST_CALL, _WARM_UP, _WINDOW, _REST)
_UNKNOWN = "not known"
_OTHER_OPS = "other ops"

Shares = Mapping[str, float]
"""Lengths of the parts of one bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """One attempt that is typical of its trial."""

    name: str
    attempt: Row
    parts_s: Shares  # what it measured, and what else it took

    @property
    def remark(self) -> str:
        """Return what became of it, or how long it waited for data."""
        outcome = Outcome(self.attempt["outcome"])
        if outcome is not Outcome.COMPLETED:
            return SYMBOLS[outcome]
        share = self.attempt["data_wait_share"] or 0.0
        return f"{share:.0%} waiting for data" if share > 0.01 else ""


def draw(source: PlotSource, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model and machine, and one more where there are profiles."""
    tables = varied_tables(source.results, across="num_gpus")
    tables = [table for table in tables if any(result.attempt_ids for result in table.results)]
    if not tables:
        raise NothingToShow("published figures have no attempts")
    for table, name in zip(tables, file_names(tables), strict=True):
        spent, notes = _spent(source, table)
        yield _of_attempts(table, name, spent, notes, palette)
        profiled = [one for one in spent if op_shares(one.attempt)]
        if profiled:
            yield _of_ops(table, f"{name}-ops", profiled, notes, palette)


def _spent(source: PlotSource, table: Table) -> tuple[list[Spent], list[str]]:
    kept, notes = at_most([result for result in table.results if result.attempt_ids])
    attempts = [typical(source, result) for result in kept]
    samples = source.steps([attempt["attempt"] for attempt in attempts])
    names = row_names(table)
    spent = []
    for result, attempt in zip(kept, attempts, strict=True):
        parts_s = attempt_parts_s(attempt, samples.get(attempt["attempt"], []))
        if attempt["duration_s"] is not None:
            is_known = len(parts_s) == len(_PARTS) - 1
            rest_s = max(attempt["duration_s"] - sum(parts_s.values()), 0.0)
            parts_s[_REST if is_known else _UNKNOWN] = rest_s
        spent.append(Spent(name=names[result.trial_id], attempt=attempt, parts_s=parts_s))
    if any(len(result.repeats) > 1 for result in kept):
        notes = [*notes, "of repeats the one with the median throughput"]
    return spent, notes


def attempt_parts_s(attempt: Row, samples: Sequence[StepSample]) -> dict[str, float]:
    """Return the parts that are stored, in their order; none of them without a measurement."""
    first_s, trace_s, call_s = (
        attempt[name] for name in ("time_to_first_step_s", "trace_s", "first_step_s")
    )
    parts = {_TRACE: trace_s, _FIRST_CALL: call_s, _WINDOW: attempt["window_s"]}
    if first_s is not None:  # of a user's program no more is known
        parts[_START] = max(first_s - (trace_s or 0.0) - (call_s or 0.0), 0.0)
    window = [sample.start_s for sample in samples if sample.phase == Phase.MEASURE]
    if window:
        parts[_WARM_UP] = max(window[0] - samples[0].start_s, 0.0)
    return {name: parts[name] for name in _PARTS if parts.get(name) is not None}


def _of_attempts(
    table: Table, name: str, spent: Sequence[Spent], notes: Sequence[str], palette: Palette
) -> Picture:
    looks = _looks(palette, [*_PARTS, _UNKNOWN])
    picture = _picture(table, name, "where the time goes", spent, notes)
    axes = picture.figure.axes[0]
    handles = _stack(axes, [one.parts_s for one in spent], looks)
    longest = max(sum(one.parts_s.values()) for one in spent) or 1.0
    has_remarks = any(one.remark for one in spent)
    axes.set_xlim(0, (1.3 if has_remarks else 1.03) * longest)
    for row, one in enumerate(spent):
        at = sum(one.parts_s.values()) + 0.01 * longest
        axes.text(at, row, one.remark, va="center", fontsize=SMALL_PT - 1)
    axes.set_xlabel("s of an attempt")
    figures.add_legend(picture.figure, handles)
    for one in spent:
        if one.remark in MEANINGS:
            picture.marks.append(f"{one.remark}: {MEANINGS[one.remark]}")
    return picture


def _of_ops(
    table: Table, name: str, spent: Sequence[Spent], notes: Sequence[str], palette: Palette
) -> Picture:
    """Draw shares, not seconds: profiling costs time itself."""
    classes, shares = _largest([op_shares(one.attempt) for one in spent])
    picture = _picture(table, name, "time in ops", spent, notes)
    axes = picture.figure.axes[0]
    handles = _stack(axes, shares, _looks(palette, classes))
    for row, one in enumerate(spent):
        text = f"{exposed_share(one.attempt):.0f} % of the step in reduction alone"
        axes.text(102, row, text, va="center", fontsize=SMALL_PT - 1)
    axes.set_xlim(0, 175)
    axes.set_xticks([0, 50, 100])
    axes.set_xlabel("% of the time in ops, summed over devices, of profiled steps", loc="left")
    figures.add_legend(picture.figure, handles)
    return picture


def _picture(
    table: Table, name: str, what: str, spent: Sequence[Spent], notes: Sequence[str]
) -> Picture:
    """Return a picture with a row per attempt, still without its bars."""
    height_in = rows_in([one.name for one in spent]) + 0.5
    figure, (axes,) = figures.panels(1, max(height_in, 1.2))
    title, setting = headings(table, what)
    figures.set_title(figure, title)
    name_rows(axes, [one.name for one in spent])
    return Picture(
        name=name, figure=figure, setting=setting, results=table.results, marks=list(notes)
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
    """Return the classes with the largest shares, and what each row has of them and of others."""
    totals: dict[str, float] = {}
    for row in rows:
        for name, share in row.items():
            totals[name] = totals.get(name, 0.0) + share
    classes = sorted(totals, key=lambda name: -totals[name])[:MOST_CLASSES]
    shares: list[Shares] = []
    for row in rows:
        kept = {name: row[name] for name in classes if name in row}
        rest = sum(share for name, share in row.items() if name not in classes)
        shares.append(kept | {_OTHER_OPS: rest} if rest else kept)
    return [*classes, _OTHER_OPS], shares


def _stack(
    axes: Axes, rows: Sequence[Shares], looks: Mapping[str, dict[str, Any]]
) -> dict[str, Artist]:
    """Draw a bar per row, its parts in this order; return what the legend names."""
    handles: dict[str, Artist] = {}
    left = [0.0] * len(rows)
    for part, look in looks.items():
        lengths = [row.get(part, 0.0) for row in rows]
        if any(lengths):
            axes.barh(range(len(rows)), lengths, left=left, height=0.6, label=part, **look)
            handles[part] = Patch(**look)
        left = [start + length for start, length in zip(left, lengths, strict=True)]
    return handles


def _looks(palette: Palette, parts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Let neighbors differ in color and in hatch, so that they differ in grey."""
    looks: dict[str, dict[str, Any]] = {}
    for number, part in enumerate(parts):
        looks[part] = {
            "facecolor": palette.ground if part == _UNKNOWN else palette.color(number),
            "edgecolor": palette.faint if part == _UNKNOWN else palette.ground,
            "linewidth": 0.5,
            "hatch": HATCHES[number % len(HATCHES)],
        }
    return looks

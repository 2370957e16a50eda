"""Where the time of each attempt goes, from its start to its end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from analysis.pivot import Table, varied_tables
from analysis.titles import headings
from plots import drawing
from plots.drawing import HATCHES, SMALL_PT, NothingToShow, Palette, Picture, file_names
from plots.layout import MEANINGS, SYMBOLS
from plots.lines import at_most, name_rows, row_names, rows_in, typical
from plots.source import PlotSource
from scalemark.records.measurement import Outcome, Phase, StepSample
from store.reading.queries import Row

ABOUT = "where the time of an attempt goes: start, tracing, first call, warm-up, measuring"

_START, _TRACE, _FIRST_CALL = "start", "tracing", "first call (compiling)"
_WARM_UP, _WINDOW, _REST = "warm-up", "measured window", "the rest"
_PARTS = (_START, _TRACE, _FIRST_CALL, _WARM_UP, _WINDOW, _REST)
_UNKNOWN = "not known"

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
        if share > 0.01:
            return f"{share:.0%} waiting for data"
        return ""


def draw(source: PlotSource, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model and machine."""
    tables = []
    for table in varied_tables(source.results, across="num_gpus"):
        if any(result.attempt_ids for result in table.results):
            tables.append(table)
    if not tables:
        raise NothingToShow("published figures have no attempts")
    for table, name in zip(tables, file_names(tables), strict=True):
        yield _picture(table, name, source, palette)


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


def _picture(table: Table, name: str, source: PlotSource, palette: Palette) -> Picture:
    spent, notes = _spent(source, table)
    names = [attempt.name for attempt in spent]
    figure, (axes,) = drawing.panels(1, max(rows_in(names) + 0.5, 1.2))
    title, setting = headings(table, "where the time goes")
    drawing.set_title(figure, title)
    name_rows(axes, names)
    drawing.add_legend(figure, _stack(axes, spent, palette))
    longest = max(sum(attempt.parts_s.values()) for attempt in spent) or 1.0
    has_remarks = False
    for row, attempt in enumerate(spent):
        has_remarks |= bool(attempt.remark)
        at = sum(attempt.parts_s.values()) + 0.01 * longest
        axes.text(at, row, attempt.remark, va="center", fontsize=SMALL_PT - 1)
        if attempt.remark in MEANINGS:
            notes.append(f"{attempt.remark}: {MEANINGS[attempt.remark]}")
    axes.set_xlim(0, (1.3 if has_remarks else 1.03) * longest)
    axes.set_xlabel("s of an attempt")
    return Picture(name=name, figure=figure, setting=setting, results=table.results, marks=notes)


def _stack(axes: Axes, spent: Sequence[Spent], palette: Palette) -> dict[str, Artist]:
    """Draw a bar per attempt, its parts in their order; return what the legend names. Neighbors
    differ in color and in hatch, so that they differ in grey.
    """
    handles: dict[str, Artist] = {}
    left = [0.0] * len(spent)
    for number, part in enumerate((*_PARTS, _UNKNOWN)):
        lengths = [attempt.parts_s.get(part, 0.0) for attempt in spent]
        if not any(lengths):
            continue
        look: dict[str, Any] = {
            "facecolor": palette.color(number),
            "edgecolor": palette.ground,
            "linewidth": 0.5,
            "hatch": HATCHES[number % len(HATCHES)],
        }
        if part == _UNKNOWN:
            look |= {"facecolor": palette.ground, "edgecolor": palette.faint}
        axes.barh(range(len(spent)), lengths, left=left, height=0.6, label=part, **look)
        handles[part] = Patch(**look)
        left = list(map(add, left, lengths))
    return handles


def attempt_parts_s(attempt: Row, samples: Sequence[StepSample]) -> dict[str, float]:
    """Return the parts that are stored, in their order; none of them without a measurement."""
    first_s, trace_s = attempt["time_to_first_step_s"], attempt["trace_s"]
    call_s = attempt["first_step_s"]
    parts = {_TRACE: trace_s, _FIRST_CALL: call_s, _WINDOW: attempt["window_s"]}
    if first_s is not None:  # of a user's program no more is known
        parts[_START] = max(first_s - (trace_s or 0.0) - (call_s or 0.0), 0.0)
    window = [sample.start_s for sample in samples if sample.phase == Phase.MEASURE]
    if window:
        parts[_WARM_UP] = max(window[0] - samples[0].start_s, 0.0)
    return {name: parts[name] for name in _PARTS if parts.get(name) is not None}

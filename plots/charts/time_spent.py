"""Where the time goes: of each attempt from its start to its end, of each step, and of the ops in a
profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator
from matplotlib.transforms import ScaledTranslation

from analysis.pivot import Table, pivot
from analysis.results import Result
from analysis.text.titles import headings, table_notes
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.lettering import width_in
from plots.pictures.rows import BAR_IN, HATCHES, beside, left_in, name_rows, row_name, rows_in
from plots.pictures.sheet import Sheet
from plots.pictures.theme import FOOTER_PT, Palette
from plots.pictures.typical import at_most, typical
from plots.source import Source
from plots.tables.layout import SYMBOLS
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Outcome, Phase
from store.reading.queries import Row

ABOUT = (
    "where the time goes: start, tracing, compiling, warm-up, measuring; waiting for data; and "
    "by class of op"
)

MOST_TRIALS = 24
MOST_CLASSES = 6  # of ops; more become "the rest"
_START, _TRACE, _FIRST_CALL, _WARM_UP, _WINDOW, _REST = (
    *("start", "tracing", "first call (compiling)", "warm-up", "measured window", "the rest"),
)
_ATTEMPT_PARTS = (_START, _TRACE, _FIRST_CALL, _WARM_UP, _WINDOW, _REST)
_WAITING, _COMPUTING = "waiting for data", "computing"
_OTHER_OPS = "the rest of the ops"
_NOT_TOLD = "not told apart"
_ORDER = (*_ATTEMPT_PARTS, _NOT_TOLD, _WAITING, _COMPUTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """One attempt that stands for its trial."""

    result: Result
    attempt: Row
    parts_s: dict[str, float]  # of the attempt, those that are known
    untold_s: float | None  # what else it took; None when nobody saw it end


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per model, setting and machine, and one more where there are profiles."""
    tables = [
        table
        for table in pivot(source.results)
        if any(result.attempt_ids for result in table.results)
    ]
    if not tables:
        raise NothingToShow("published figures have no attempts")
    for table, name in zip(tables, file_names(tables), strict=True):
        kept, left_out = at_most(
            [result for result in table.results if result.attempt_ids], MOST_TRIALS
        )
        found, notes = _spent(source, kept), [*table_notes(table), *left_out]
        yield _of_attempts(table, name, found, notes, palette)
        if profiled := [one for one in found if op_shares(one.attempt)]:
            yield _of_profiles(table, f"{name}-ops", profiled, notes, palette)


def _spent(source: Source, results: Sequence[Result]) -> list[Spent]:
    attempts = [typical(source, result) for result in results]
    samples = source.steps([attempt["attempt"] for attempt in attempts])
    return [
        _of_trial(result, attempt, samples.get(attempt["attempt"], []))
        for result, attempt in zip(results, attempts, strict=True)
    ]


def _of_trial(result: Result, attempt: Row, samples: Sequence[StepSample]) -> Spent:
    """What is left of its time is the rest, where all parts are known, and else is not told
    apart.
    """
    parts_s = attempt_parts_s(attempt, samples)
    whole_s = attempt["duration_s"]
    untold_s = None if whole_s is None else max(whole_s - sum(parts_s.values()), 0.0)
    if untold_s is not None and len(parts_s) == len(_ATTEMPT_PARTS) - 1:
        return Spent(
            result=result, attempt=attempt, parts_s=parts_s | {_REST: untold_s}, untold_s=0.0
        )
    return Spent(result=result, attempt=attempt, parts_s=parts_s, untold_s=untold_s)


def attempt_parts_s(attempt: Row, samples: Sequence[StepSample]) -> dict[str, float]:
    """The parts that are stored, in their order; none of them without a measurement."""
    first_s, trace_s, call_s = (
        attempt[name] for name in ("time_to_first_step_s", "trace_s", "first_step_s")
    )
    window = [sample.start_s for sample in samples if sample.phase == Phase.MEASURE]
    known = {
        _START: None
        if None in (first_s, trace_s, call_s)
        else max(first_s - trace_s - call_s, 0.0),
        _TRACE: trace_s,
        _FIRST_CALL: call_s,
        _WARM_UP: max(window[0] - samples[0].start_s, 0.0) if window else None,
        _WINDOW: attempt["window_s"],
    }
    return {name: seconds for name, seconds in known.items() if seconds is not None}


def _of_attempts(
    table: Table, name: str, found: Sequence[Spent], notes: Sequence[str], palette: Palette
) -> Picture:
    sheet = Sheet(palette)
    sheet.heading(*headings(table, "where the time goes"))
    attempts, steps = _two_axes(sheet, table, found)
    bars = [one.parts_s | ({_NOT_TOLD: one.untold_s} if one.untold_s else {}) for one in found]
    _stack_bars(attempts, bars, _ORDER, palette)
    _tell_failures(attempts, found, palette)
    attempts.set_xlim(0, 1.03 * max(sum(of.values()) for of in bars) or 1)
    attempts.set_xlabel("s of an attempt")
    shares = [_step_shares(one.attempt) for one in found]
    _stack_bars(steps, shares, _ORDER, palette)
    steps.set_xlabel("% of the window")
    sheet.gap(0.42)
    _legend(sheet, _ORDER, [*bars, *shares])
    return Picture(name=name, figure=sheet.finished(), about=[*notes, *_missing(found)])


def _two_axes(sheet: Sheet, table: Table, found: Sequence[Spent]) -> tuple[Axes, Axes]:
    """Rows with their names, twice; between them is space for symbols of failures."""
    names = [row_name(one.result) for one in found]
    between_in = 0.2 + max(width_in(_symbol(one), FOOTER_PT) for one in found)
    sheet.text(f"strategy x number of {table.place.devices}", color=sheet.palette.faint)
    left, right = beside(sheet, rows_in(names), left_in(names), between_in, (5, 3))
    name_rows(left, names)
    name_rows(right, names)
    right.tick_params(labelleft=False)
    right.set_xlim(0, 100)
    right.xaxis.set_major_locator(FixedLocator([0, 50, 100]))
    left.xaxis.set_major_locator(MaxNLocator(4))
    return left, right


def _missing(found: Sequence[Spent]) -> list[str]:
    unseen = sum(one.untold_s is None for one in found)
    unmeasured = sum(not one.parts_s for one in found)
    told = (
        ["of the repeats of a trial the one with the median images/s is drawn"]
        if any(len(one.result.repeats) > 1 for one in found)
        else []
    )
    if unmeasured:
        told.append(
            f"{unmeasured} of {len(found)} left no measurement: how they spent their time is "
            "not told apart"
        )
    if unseen:
        told.append(
            f"{unseen} of {len(found)} have a bar without its end, or none: nobody saw them end"
        )
    return told


def _step_shares(attempt: Row) -> dict[str, float]:
    share = attempt["data_wait_share"]
    return {} if share is None else {_WAITING: 100 * share, _COMPUTING: 100 - 100 * share}


def _tell_failures(axes: Axes, found: Sequence[Spent], palette: Palette) -> None:
    """At the end of its row, outside the axes."""
    beyond = axes.get_yaxis_transform() + ScaledTranslation(0.04, 0, axes.figure.dpi_scale_trans)
    for center_in, one in zip(axes.get_yticks(), found, strict=True):
        axes.text(
            1,
            center_in,
            _symbol(one),
            transform=beyond,
            va="center_baseline",
            fontsize=FOOTER_PT,
            color=palette.ink,
        )


def _symbol(one: Spent) -> str:
    return (
        ""
        if one.attempt["outcome"] == Outcome.COMPLETED
        else SYMBOLS[Outcome(one.attempt["outcome"])]
    )


def _of_profiles(
    table: Table, name: str, found: Sequence[Spent], notes: Sequence[str], palette: Palette
) -> Picture:
    """Shares travel, seconds do not: profiling costs time itself."""
    classes, shares = _largest([op_shares(one.attempt) for one in found])
    sheet = Sheet(palette)
    sheet.heading(*headings(table, "time in ops"))
    of_ops, of_step = _two_axes(sheet, table, found)
    _stack_bars(of_ops, shares, classes, palette)
    of_ops.set_xlim(0, 100)
    of_ops.set_xlabel("% of the time in ops")
    exposed = [exposed_share(one.attempt) for one in found]
    of_step.barh(of_step.get_yticks(), exposed, height=BAR_IN, color=palette.ink)
    of_step.set_xlabel("% of step with\nreduction alone")
    sheet.gap(0.55)
    _legend(sheet, classes, shares)
    told = (
        "of profiled steps; the time in ops is summed over devices, and TensorFlow records all "
        "but its cheapest ops"
    )
    return Picture(name=name, figure=sheet.finished(), about=[*notes, told])


def op_shares(attempt: Row) -> dict[str, float]:
    """Percent of the time in ops by class; nothing without a profile."""
    seconds: Mapping[str, float] = (attempt["recorded_profile"] or {}).get("op_class_s", {})
    whole_s = sum(seconds.values())
    return {op_class: 100 * of / whole_s for op_class, of in seconds.items()} if whole_s else {}


def exposed_share(attempt: Row) -> float:
    """Percent of the profiled step in which nothing but a reduction ran: the most that another
    strategy could win.
    """
    profile = attempt["recorded_profile"]
    return 100 * profile["exposed_reduction_s"] / profile["step_s"] if profile["step_s"] else 0.0


def _largest(shares: Sequence[Mapping[str, float]]) -> tuple[list[str], list[dict[str, float]]]:
    """The classes with the largest shares, and what each row has of them; all others are one."""
    totals = {name: sum(of.get(name, 0.0) for of in shares) for of in shares for name in of}
    shown = sorted(totals, key=lambda name: -totals[name])[:MOST_CLASSES]
    rest = [sum(share for name, share in of.items() if name not in shown) for of in shares]
    found = [
        {name: of[name] for name in shown if name in of} | {_OTHER_OPS: other}
        for of, other in zip(shares, rest, strict=True)
    ]
    return [*shown, *([_OTHER_OPS] if any(rest) else [])], found


def _stack_bars(
    axes: Axes, rows: Sequence[Mapping[str, float]], order: Sequence[str], palette: Palette
) -> None:
    """A bar per row; its parts in this order."""
    left = [0.0] * len(rows)
    for part in order:
        lengths = [of.get(part, 0.0) for of in rows]
        if any(lengths):
            axes.barh(
                axes.get_yticks(),
                lengths,
                left=left,
                height=BAR_IN,
                label=part,
                **_look(part, order, palette),
            )
        left = [start + length for start, length in zip(left, lengths, strict=True)]


def _look(part: str, order: Sequence[str], palette: Palette) -> dict[str, Any]:
    """Neighbors differ in color and in hatch, so that they differ in grey."""
    if part == _NOT_TOLD:
        return {
            "facecolor": palette.ground,
            "edgecolor": palette.faint,
            "linewidth": 0.8,
            "linestyle": ":",
        }
    if part in (_WAITING, _COMPUTING):
        return {
            "facecolor": palette.ink if part == _WAITING else palette.tint(palette.faint, 0.4),
            "linewidth": 0,
        }
    index = order.index(part)
    color = palette.series[index % len(palette.series)]
    return {
        "facecolor": color,
        "edgecolor": palette.ground,
        "linewidth": 0.5,
        "hatch": HATCHES[index % len(HATCHES)],
    }


def _legend(sheet: Sheet, order: Sequence[str], rows: Sequence[Mapping[str, float]]) -> None:
    """Of the parts that occur."""
    shown = [part for part in order if any(of.get(part) for of in rows)]
    sheet.legend([Patch(**_look(part, order, sheet.palette)) for part in shown], shown)

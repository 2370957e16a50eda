"""A sweep on its devices: every attempt as a bar on the slots it held, with failures, second tries
and idle time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis.results import Place, Result
from analysis.text.titles import host_notes, place_notes
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.rows import HATCHES, left_in, name_rows
from plots.pictures.sheet import Sheet
from plots.pictures.theme import Palette
from plots.source import Source
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome
from store.reading.queries import Row

ABOUT = "a sweep on its devices: attempts, failures, second tries and idle time"

MOST_SWEEPS = 5
_ROW_IN = 0.3  # of a slot
MOST_MODELS = 8  # with a color each; others share one
# from so many seconds on: divided by, name
_UNITS = ((7200.0, 3600.0, "h"), (180.0, 60.0, "min"), (0.0, 1.0, "s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An attempt as it is drawn."""

    attempt: Row
    slots: tuple[int, ...]  # none when they were not stored
    start_s: float  # since the first of the sweep on that machine
    duration_s: float | None  # None when nobody saw it end
    is_retry: bool


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per sweep and machine, of the newest sweeps only; with `--sweep` of that one."""
    grouped: dict[tuple[str, str], list[Row]] = defaultdict(list)
    results: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in source.results:
        for attempt in (source.attempts[attempt_id] for attempt_id in result.attempt_ids):
            if source.selection.sweep in (None, attempt["sweep"]):
                grouped[attempt["sweep"], attempt["machine"]].append(attempt)
                results[attempt["sweep"], attempt["machine"]].append(result)
    if not grouped:
        raise NothingToShow("there is no attempt of such a sweep")
    newest = sorted(
        grouped, key=lambda where: max(attempt["started_at"] for attempt in grouped[where])
    )[-MOST_SWEEPS:]
    older = len(grouped) - len(newest)
    told = (
        [
            (
                f"{older} older sweep{'s are' if older > 1 else ' is'} not drawn; see one with "
                "--sweep NAME"
            )
        ]
        if older
        else []
    )
    for sweep, machine in newest:
        of = results[sweep, machine]
        about = dict.fromkeys(
            [*(note for result in of for note in place_notes(result.place)), *host_notes(of)]
        )
        where = [machine[:6]] if len([of for of, _ in grouped if of == sweep]) > 1 else []
        name = "-".join([sweep, *where])
        yield _picture(
            sweep,
            name,
            _bars(grouped[sweep, machine]),
            _devices(result.place for result in of),
            [*about, *told],
            palette,
        )


def _devices(places: Iterable[Place]) -> str:
    kinds = {place.device_kind for place in places}
    return kinds.pop().singular if len(kinds) == 1 else "slot"


def _bars(attempts: Sequence[Row]) -> list[Bar]:
    """By their starts."""
    ordered = sorted(attempts, key=lambda attempt: (attempt["started_at"], attempt["attempt"]))
    tried: set[tuple[str, int]] = set()
    found = []
    for attempt in ordered:
        repeat = (attempt["trial_id"], attempt["repeat"])
        found.append(
            Bar(
                attempt=attempt,
                slots=tuple(int(slot) for slot in attempt["devices"].split(",") if slot),
                start_s=(attempt["started_at"] - ordered[0]["started_at"]).total_seconds(),
                duration_s=attempt["duration_s"],
                is_retry=repeat in tried,
            )
        )
        tried.add(repeat)
    return found


def _picture(
    sweep: str, name: str, bars: Sequence[Bar], devices: str, about: Sequence[str], palette: Palette
) -> Picture:
    looks, rows = _looks(bars, palette), _rows(bars)
    names = [_row_name(slot, devices) for slot in rows]
    end_s = max(bar.start_s + (bar.duration_s or 0.0) for bar in bars) or 1.0
    divisor, unit = next((divisor, unit) for least, divisor, unit in _UNITS if end_s >= least)
    sheet = Sheet(palette)
    simulated = "simulated " if devices == DeviceKind.SIMULATED_GPU.singular else ""
    sheet.heading(f"{simulated}sweep {sweep}", _told(bars, len(rows), end_s))
    axes = sheet.axes(_ROW_IN * len(names), left_in(names), 0.2)
    name_rows(axes, names, _ROW_IN)
    for model, look in looks.items():
        _draw_bars(
            axes, [bar for bar in bars if _model(bar, looks) == model], rows, divisor, look, palette
        )
    _draw_marks(axes, bars, rows, divisor, palette)
    axes.set_xlim(-0.015 * end_s / divisor, 1.02 * end_s / divisor)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.set_xlabel(f"{unit} since {bars[0].attempt['started_at']:%Y-%m-%d %H:%M:%S} UTC")
    sheet.gap(0.42)
    legend = _legend(bars, looks, palette)
    sheet.legend(legend, [str(handle.get_label()) for handle in legend])
    return Picture(name=name, figure=sheet.finished(), about=about)


def _told(bars: Sequence[Bar], num_slots: int, end_s: float) -> str:
    """Of its attempts, and how well the slots were used, where they were held by one attempt at a
    time.
    """
    failed = sum(bar.attempt["outcome"] != Outcome.COMPLETED for bar in bars)
    told = f"{len(bars)} attempts, {failed} of them not completed" if len(bars) > 1 else "1 attempt"
    held = sum((bar.duration_s or 0.0) * max(len(bar.slots), 1) for bar in bars) / (
        end_s * num_slots
    )
    return (
        told if held > 1 else f"{told}; the slots it used were held {100 * held:.0f} % of the time"
    )


def _rows(bars: Sequence[Bar]) -> dict[int | None, int]:
    """Slot to row; None is for attempts whose slots were not stored."""
    slots = sorted({slot for bar in bars for slot in bar.slots})
    unknown: list[int | None] = [None] if any(not bar.slots for bar in bars) else []
    return {slot: row for row, slot in enumerate([*slots, *unknown])}


def _row_name(slot: int | None, devices: str) -> str:
    return "not stored" if slot is None else f"{devices} {slot}"


def _looks(bars: Sequence[Bar], palette: Palette) -> dict[str, dict[str, str]]:
    """Of each model: color and hatch, so that they differ in grey."""
    models = list(dict.fromkeys(bar.attempt["model"] for bar in bars))
    named = (
        models
        if len(models) <= MOST_MODELS
        else [*models[: MOST_MODELS - 1], f"{len(models) - MOST_MODELS + 1} other models"]
    )
    return {
        model: {
            "facecolor": palette.series[index % len(palette.series)],
            "hatch": HATCHES[index % len(HATCHES)],
        }
        for index, model in enumerate(named)
    }


def _model(bar: Bar, looks: Mapping[str, object]) -> str:
    """By which it is colored: the last stands for all that have no color of their own."""
    model = str(bar.attempt["model"])
    return model if model in looks else list(looks)[-1]


def _draw_bars(
    axes: Axes,
    bars: Sequence[Bar],
    rows: Mapping[int | None, int],
    divisor: float,
    look: Mapping[str, str],
    palette: Palette,
) -> None:
    """Filled where they completed, else hollow; neighboring slots in one."""
    for done in (True, False):
        boxes = [
            box
            for bar in bars
            if bar.duration_s is not None and (bar.attempt["outcome"] == Outcome.COMPLETED) is done
            for box in _boxes(
                bar.start_s / divisor,
                bar.duration_s / divisor,
                [rows[slot] for slot in bar.slots or (None,)],
            )
        ]
        color = look["facecolor"]
        bars_of_it = PolyCollection(
            boxes,
            facecolor=color if done else "none",
            edgecolor=palette.ground if done else color,
            linewidth=0.6 if done else 1.2,
            hatch=look["hatch"],
            gid="done" if done else "failed",
        )
        axes.add_collection(bars_of_it)


def _boxes(start: float, length: float, rows: Sequence[int]) -> Iterator[list[tuple[float, float]]]:
    runs: list[list[int]] = []
    for row in sorted(rows):
        if runs and runs[-1][-1] == row - 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    for run in runs:
        top, bottom, end = _ROW_IN * (run[0] + 0.1), _ROW_IN * (run[-1] + 0.9), start + length
        yield [(start, top), (end, top), (end, bottom), (start, bottom)]


def _draw_marks(
    axes: Axes,
    bars: Sequence[Bar],
    rows: Mapping[int | None, int],
    divisor: float,
    palette: Palette,
) -> None:
    """Failures in the middle of their first slot, second tries at its beginning."""
    for bar in bars:
        middle_in = _ROW_IN * (min(rows[slot] for slot in bar.slots or (None,)) + 0.5)
        if bar.is_retry:
            axes.plot(
                bar.start_s / divisor, middle_in - 0.08, **_RETRY, markersize=4, color=palette.ink
            )
        if bar.attempt["outcome"] != Outcome.COMPLETED:
            middle = (bar.start_s + (bar.duration_s or 0.0) / 2) / divisor
            axes.add_line(_mark(bar.attempt["outcome"], palette, at=(middle, middle_in)))
        if bar.duration_s is None:
            axes.plot(
                bar.start_s / divisor, middle_in + 0.08, **_UNSEEN, markersize=4, color=palette.ink
            )


MARKERS = {
    Outcome.OUT_OF_MEMORY: "^",
    Outcome.HUNG: "s",
    Outcome.TIMED_OUT: "D",
    Outcome.UNSUPPORTED: "_",
    Outcome.FAILED: "x",
    Outcome.INTERRUPTED: "|",
    Outcome.INVALID: "*",
}
"""Of what did not complete: bars are too short for words."""
_STROKES = "x_|"  # markers without a face


def _mark(
    outcome: str, palette: Palette, label: str = "_failure", at: tuple[float, float] | None = None
) -> Line2D:
    """With a rim where it has a face, so that it is seen on any bar."""
    marker = MARKERS[Outcome(outcome)]
    has_face = marker not in _STROKES
    xs, ys = ([], []) if at is None else ([at[0]], [at[1]])
    return Line2D(
        xs,
        ys,
        label=label,
        marker=marker,
        markersize=6,
        linestyle="none",
        color=palette.ink,
        markeredgecolor=palette.ground if has_face else palette.ink,
        markeredgewidth=0.8 if has_face else 1.6,
    )


_RETRY: dict[str, Any] = {"marker": ">", "linestyle": "none", "label": "tried again"}
_UNSEEN: dict[str, Any] = {
    "marker": "o",
    "markerfacecolor": "none",
    "linestyle": "none",
    "label": "end not seen",
}


def _legend(
    bars: Sequence[Bar], looks: Mapping[str, Mapping[str, str]], palette: Palette
) -> list[Artist]:
    failed = {bar.attempt["outcome"] for bar in bars} - {Outcome.COMPLETED}
    found: list[Artist] = [
        Patch(label=model, edgecolor=palette.ground, **look)  # type: ignore[arg-type]
        for model, look in looks.items()
    ]
    found += [
        _mark(outcome, palette, label=outcome.replace("_", " "))
        for outcome in MARKERS
        if outcome in failed
    ]
    if any(bar.is_retry for bar in bars):
        found.append(Line2D([], [], **_RETRY, markersize=4, color=palette.ink))
    if any(bar.duration_s is None for bar in bars):
        found.append(Line2D([], [], **_UNSEEN, markersize=4, color=palette.ink))
    return found

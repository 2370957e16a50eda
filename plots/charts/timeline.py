"""A sweep on its devices: every attempt as a bar on the slots it held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis.results import Result
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
MOST_MODELS = 8  # with a color each; others share one
_ROW_IN = 0.3  # of a slot
# the least duration in seconds, what it is divided by, and the unit
_UNITS = ((7200.0, 3600.0, "h"), (180.0, 60.0, "min"), (0.0, 1.0, "s"))

MARKERS = {
    Outcome.OUT_OF_MEMORY: "^",
    Outcome.HUNG: "s",
    Outcome.TIMED_OUT: "D",
    Outcome.UNSUPPORTED: "_",
    Outcome.FAILED: "x",
    Outcome.INTERRUPTED: "|",
    Outcome.INVALID: "*",
}
"""Markers of what did not complete: bars are too short for words."""
_STROKES = "x_|"  # markers without a face
_RETRY: dict[str, Any] = {"marker": ">", "linestyle": "none", "label": "tried again"}
_UNSEEN: dict[str, Any] = {
    "marker": "o",
    "markerfacecolor": "none",
    "linestyle": "none",
    "label": "end not seen",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An attempt as it is drawn."""

    attempt: Row
    rows: tuple[int, ...]  # of its slots; the last row of all where they were not stored
    start_s: float  # since the first of the sweep on that machine
    is_retry: bool

    @property
    def duration_s(self) -> float | None:
        """Return None when nobody saw it end."""
        duration_s: float | None = self.attempt["duration_s"]
        return duration_s

    @property
    def is_completed(self) -> bool:
        return bool(self.attempt["outcome"] == Outcome.COMPLETED)


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per sweep and machine, of the newest sweeps only; with `--sweep` of that."""
    attempts: dict[tuple[str, str], list[Row]] = defaultdict(list)
    results: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in source.results:
        for attempt_id in result.attempt_ids:
            attempt = source.attempts[attempt_id]
            if source.selection.sweep in (None, attempt["sweep"]):
                where = attempt["sweep"], attempt["machine"]
                attempts[where].append(attempt)
                results[where].append(result)
    if not attempts:
        raise NothingToShow("there is no attempt of such a sweep")
    by_start = {where: _by_start(found) for where, found in attempts.items()}
    newest = sorted(by_start, key=lambda where: by_start[where][-1]["started_at"])
    num_older = max(len(newest) - MOST_SWEEPS, 0)
    newest = newest[-MOST_SWEEPS:]
    for sweep, machine in newest:
        notes = []
        if num_older:
            notes.append(f"older sweeps are not drawn: {num_older}; see one with --sweep NAME")
        kinds = {result.environment.device_kind for result in results[sweep, machine]}
        is_of_several = sum(name == sweep for name, _ in attempts) > 1
        yield _picture(
            sweep,
            f"{sweep}-{machine[:6]}" if is_of_several else sweep,
            by_start[sweep, machine],
            kinds.pop().singular if len(kinds) == 1 else "slot",
            results[sweep, machine],
            notes,
            palette,
        )


def _by_start(attempts: Sequence[Row]) -> list[Row]:
    return sorted(attempts, key=lambda attempt: (attempt["started_at"], attempt["attempt"]))


def _slots(attempt: Row) -> list[int]:
    return [int(slot) for slot in attempt["devices"].split(",") if slot]


def _bars(attempts: Sequence[Row], slots: Sequence[int]) -> list[Bar]:
    """`attempts` and `slots` are in their order."""
    tried: set[tuple[str, int]] = set()
    found = []
    for attempt in attempts:
        repeat = (attempt["trial_id"], attempt["repeat"])
        rows = tuple(slots.index(slot) for slot in _slots(attempt))
        since_first = attempt["started_at"] - attempts[0]["started_at"]
        bar = Bar(
            attempt=attempt,
            rows=rows or (len(slots),),
            start_s=since_first.total_seconds(),
            is_retry=repeat in tried,
        )
        found.append(bar)
        tried.add(repeat)
    return found


def _picture(
    sweep: str,
    name: str,
    attempts: Sequence[Row],
    devices: str,
    results: Sequence[Result],
    about: Sequence[str],
    palette: Palette,
) -> Picture:
    slots = sorted({slot for attempt in attempts for slot in _slots(attempt)})
    names = [f"{devices} {slot}" for slot in slots]
    if not all(_slots(attempt) for attempt in attempts):
        names.append("not stored")
    bars = _bars(attempts, slots)
    looks = _looks(bars, palette)
    end_s = max(bar.start_s + (bar.duration_s or 0.0) for bar in bars) or 1.0
    divisor, unit = next((divisor, unit) for least, divisor, unit in _UNITS if end_s >= least)
    sheet = Sheet(palette)
    simulated = "simulated " if devices == DeviceKind.SIMULATED_GPU.singular else ""
    sheet.heading(f"{simulated}sweep {sweep}", _in_words(bars, len(names), end_s))
    axes = sheet.axes(_ROW_IN * len(names), left_in(names), 0.2)
    name_rows(axes, names, _ROW_IN)
    for model, look in looks.items():
        _draw_bars(
            axes, [one for one in bars if _model(one, looks) == model], divisor, look, palette
        )
    _draw_marks(axes, bars, divisor, palette)
    axes.set_xlim(-0.015 * end_s / divisor, 1.02 * end_s / divisor)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.set_xlabel(f"{unit} since {attempts[0]['started_at']:%Y-%m-%d %H:%M:%S} UTC")
    sheet.gap(0.42)
    legend = _legend(bars, looks, palette)
    sheet.legend(legend, [str(handle.get_label()) for handle in legend])
    return Picture(name=name, figure=sheet.finished(), results=results, about=about)


def _in_words(bars: Sequence[Bar], num_rows: int, end_s: float) -> str:
    """Count the attempts, and say how well the slots were used, where one attempt at a time held
    them.
    """
    num_failed = sum(not bar.is_completed for bar in bars)
    text = f"{len(bars)} attempts, {num_failed} of them not completed" if bars[1:] else "1 attempt"
    held_s = sum((bar.duration_s or 0.0) * len(bar.rows) for bar in bars)
    share = held_s / (end_s * num_rows)
    if share > 1:
        return text
    return f"{text}; the slots it used were held {100 * share:.0f} % of the time"


def _looks(bars: Sequence[Bar], palette: Palette) -> dict[str, dict[str, str]]:
    """Return color and hatch of each model: the hatch tells them apart in grey."""
    models = list(dict.fromkeys(bar.attempt["model"] for bar in bars))
    if len(models) > MOST_MODELS:
        num_others = len(models) - MOST_MODELS + 1
        models = [*models[: MOST_MODELS - 1], f"{num_others} other models"]
    return {
        model: {"facecolor": palette.color(index), "hatch": HATCHES[index % len(HATCHES)]}
        for index, model in enumerate(models)
    }


def _model(bar: Bar, looks: Mapping[str, object]) -> str:
    """Return the model whose look it has: the last stands for all without a look of their own."""
    model = str(bar.attempt["model"])
    return model if model in looks else list(looks)[-1]


def _draw_bars(
    axes: Axes, bars: Sequence[Bar], divisor: float, look: Mapping[str, str], palette: Palette
) -> None:
    """Fill those that completed, and leave the others hollow."""
    color = look["facecolor"]
    for is_completed in (True, False):
        boxes: list[list[tuple[float, float]]] = []
        for bar in bars:
            if bar.duration_s is not None and bar.is_completed is is_completed:
                boxes += _boxes(bar.start_s / divisor, bar.duration_s / divisor, bar.rows)
        axes.add_collection(
            PolyCollection(
                boxes,
                facecolor=color if is_completed else "none",
                edgecolor=palette.ground if is_completed else color,
                linewidth=0.6 if is_completed else 1.2,
                hatch=look["hatch"],
                gid="done" if is_completed else "failed",
            )
        )


def _boxes(start: float, length: float, rows: Sequence[int]) -> Iterator[list[tuple[float, float]]]:
    """Yield a box for each run of neighboring rows."""
    runs: list[list[int]] = []
    for row in sorted(rows):
        if runs and runs[-1][-1] == row - 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    for run in runs:
        top, bottom, end = _ROW_IN * (run[0] + 0.1), _ROW_IN * (run[-1] + 0.9), start + length
        yield [(start, top), (end, top), (end, bottom), (start, bottom)]


def _draw_marks(axes: Axes, bars: Sequence[Bar], divisor: float, palette: Palette) -> None:
    """Mark failures in the middle of their first slot, second tries at its beginning."""
    small: dict[str, Any] = {"markersize": 4, "color": palette.ink}
    for bar in bars:
        start, middle_in = bar.start_s / divisor, _ROW_IN * (min(bar.rows) + 0.5)
        if bar.is_retry:
            axes.plot(start, middle_in - 0.08, **_RETRY, **small)
        if not bar.is_completed:
            mark = _mark(bar.attempt["outcome"], palette, label="_failure")
            mark.set_data([start + (bar.duration_s or 0.0) / 2 / divisor], [middle_in])
            axes.add_line(mark)
        if bar.duration_s is None:
            axes.plot(start, middle_in + 0.08, **_UNSEEN, **small)


def _mark(outcome: str, palette: Palette, label: str) -> Line2D:
    """Return a marker, with a rim where it has a face, so that it is seen on any bar."""
    marker = MARKERS[Outcome(outcome)]
    has_face = marker not in _STROKES
    return Line2D(
        [],
        [],
        label=label,
        marker=marker,
        markersize=6,
        linestyle="none",
        color=palette.ink,
        markeredgecolor=palette.ground if has_face else palette.ink,
        markeredgewidth=0.8 if has_face else 1.6,
    )


def _legend(
    bars: Sequence[Bar], looks: Mapping[str, Mapping[str, str]], palette: Palette
) -> list[Artist]:
    found: list[Artist] = [
        Patch(label=model, edgecolor=palette.ground, **look)  # type: ignore[arg-type]
        for model, look in looks.items()
    ]
    outcomes = {bar.attempt["outcome"] for bar in bars}
    for outcome in MARKERS:
        if outcome in outcomes:
            found.append(_mark(outcome, palette, label=outcome.replace("_", " ")))
    if any(bar.is_retry for bar in bars):
        found.append(Line2D([], [], **_RETRY, markersize=4, color=palette.ink))
    if any(bar.duration_s is None for bar in bars):
        found.append(Line2D([], [], **_UNSEEN, markersize=4, color=palette.ink))
    return found

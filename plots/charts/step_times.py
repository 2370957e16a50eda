"""Step times: their distribution per trial, and step by step with warm-up and window marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis.pivot import pivot
from analysis.results import Result
from analysis.tables.table import Table
from analysis.text.titles import headings
from plots.looks import Looks
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.lettering import height_in
from plots.pictures.rows import beside, centers_in, left_in, name_rows, row_name, rows_in, scale_x
from plots.pictures.sheet import Sheet
from plots.pictures.theme import SMALL_PT, Palette
from plots.pictures.typical import NOT_ALL, at_most, completed, typical
from plots.source import Source
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from scalemark.stats.counted_calls import counted_calls

ABOUT = (
    "distribution of step times per trial, and step by step with warm-up and steady state marked"
)

MOST_TRIALS = 24
MOST_SERIES = 4
_MOST_DOTS = 200  # of a trial: more would only blacken the picture
_ROW_IN = 0.24
_LONG_MS = 5000  # from here on steps are in seconds

_MIDDLE_HALF: dict[str, Any] = {"linewidth": 5, "solid_capstyle": "butt"}
_MEDIAN_OF_PROCESS: dict[str, Any] = {"marker": "|", "markersize": 8, "linestyle": "none"}
_MEDIAN: dict[str, Any] = {"linestyle": "--", "linewidth": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """A trial with the steps of its completed processes."""

    result: Result
    # of each process: time per step, of the calls that count
    measured_ms: tuple[tuple[float, ...], ...]
    series: Sequence[StepSample]  # of the process that is typical of the trial
    steady: bool  # that one saw the steady state


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model, setting and machine that has steps."""
    tables = pivot(source.results)
    found = [_stepped(source, table) for table in tables]
    if not any(stepped for stepped, _ in found):
        raise NothingToShow("no step is stored of a completed attempt")
    for table, name, (stepped, left_out) in zip(tables, file_names(tables), found, strict=True):
        if stepped:
            yield _picture(table, name, stepped, source.looks, left_out, palette)


def _stepped(source: Source, table: Table) -> tuple[list[Stepped], list[str]]:
    """Return trials that have steps, and a note on those left out."""
    attempts = {result.trial_id: completed(source, result) for result in table.results}
    samples = source.steps([one["attempt"] for found in attempts.values() for one in found])
    stepped = {
        trial: [attempt for attempt in found if attempt["attempt"] in samples]
        for trial, found in attempts.items()
    }
    able = [result for result in table.results if stepped[result.trial_id]]
    kept, left_out = at_most(able, MOST_TRIALS)
    trials = []
    for result in kept:
        of_trial = stepped[result.trial_id]
        shown = typical(source, result)
        if shown["attempt"] not in samples:
            shown = of_trial[-1]
        trial = Stepped(
            result=result,
            measured_ms=tuple(measured_ms(samples[attempt["attempt"]]) for attempt in of_trial),
            series=samples[shown["attempt"]],
            steady=bool(shown["steady"]),
        )
        trials.append(trial)
    return trials, left_out


def measured_ms(steps: Sequence[StepSample]) -> tuple[float, ...]:
    """Return the time per step of the calls that count."""
    return tuple(map(_ms, counted_calls(steps)))


def _ms(step: StepSample) -> float:
    return 1000 * step.duration_s / step.num_steps


def _picture(
    table: Table,
    name: str,
    found: Sequence[Stepped],
    looks: Looks,
    about: Sequence[str],
    palette: Palette,
) -> Picture:
    sheet = Sheet(palette)
    sheet.heading(*headings(table, "step times"))
    colors = {strategy: palette.color(look) for strategy, look in looks.items()}
    names = [row_name(one.result) for one in found]
    sheet.text(f"strategy x number of {table.environment.devices}", color=palette.faint)
    axes = sheet.axes(rows_in(names, _ROW_IN), left_in(names), 0.2)
    name_rows(axes, names, _ROW_IN)
    for center_in, one in zip(centers_in(names, _ROW_IN), found, strict=True):
        _distribution(axes, center_in, one, colors[one.result.strategy], palette)
    scale_x(axes, [time for one in found for times in one.measured_ms for time in times] or [0.0])
    axes.set_xlabel("ms per step, measured steps")
    sheet.gap(0.42)
    shown = _step_by_step(found)
    for start in range(0, len(shown), 2):
        _pair(sheet, shown[start : start + 2], colors, palette)
    legend = _legend(shown, palette)
    sheet.legend(legend, [str(handle.get_label()) for handle in legend])
    marks, about = [NOT_ALL] if about else [], list(about)
    if len(shown) < len(found):
        about.append(
            f"step by step: {len(shown)} of {len(found)} trials, the fastest on the most devices; "
            "see another with strategy=NAME num_gpus=N"
        )
    return Picture(
        name=name, figure=sheet.finished(), results=table.results, marks=marks, about=about
    )


def _step_by_step(found: Sequence[Stepped]) -> list[Stepped]:
    """Return the fastest on the most GPUs."""
    most = max(one.result.num_gpus for one in found)
    on_most = [one for one in found if one.result.num_gpus == most]
    return sorted(on_most, key=lambda one: one.result.throughput or 0.0, reverse=True)[:MOST_SERIES]


def _distribution(axes: Axes, center_in: float, one: Stepped, color: str, palette: Palette) -> None:
    """Draw all measured steps as dots, the middle half as a bar, the median of each process as a
    tick.
    """
    times = np.sort(np.concatenate(one.measured_ms))
    if not len(times):
        return
    dots = times[np.unique(np.linspace(0, len(times) - 1, _MOST_DOTS).astype(int))]
    # steps of the golden ratio spread the dots evenly over the height, however many there are
    below = center_in + 0.02 + 0.07 * (0.618 * np.arange(len(dots)) % 1)
    axes.plot(dots, below, ".", color=color, markersize=2.5, alpha=0.7, rasterized=True, gid="dots")
    above = center_in - 0.04
    middle = np.percentile(times, (25, 75))
    axes.plot(middle, [above] * 2, color=color, gid="middle half", **_MIDDLE_HALF)
    medians = [float(np.median(process)) for process in one.measured_ms if process]
    style = {"color": palette.ink, "gid": "medians", **_MEDIAN_OF_PROCESS}
    axes.plot(medians, [above] * len(medians), **style)


def _pair(
    sheet: Sheet, shown: Sequence[Stepped], colors: Mapping[str, str], palette: Palette
) -> None:
    """Draw two trials step by step, side by side."""
    titles = [row_name(one.result) for one in shown]
    sheet.gap(max(height_in(title, SMALL_PT) for title in titles) + 0.1)
    panels = beside(sheet, 1.1, 0.55, 0.52, [1] * len(shown))
    for axes, one, title in zip(panels, shown, titles, strict=True):
        _steps(axes, one, colors[one.result.strategy], palette)
        axes.set_title(title, fontsize=SMALL_PT, pad=4, linespacing=1.1)
    sheet.gap(0.45)


def _steps(axes: Axes, one: Stepped, color: str, palette: Palette) -> None:
    """Draw every call, warm-up shaded; a line over the window, at its median."""
    steps, times = [step.step for step in one.series], [_ms(step) for step in one.series]
    unit, divisor = ("s", 1000) if max(times) >= _LONG_MS else ("ms", 1)
    times = [time / divisor for time in times]
    axes.plot(steps, times, color=color, linewidth=1, marker=".", markersize=3, gid="steps")
    num_warm_up = sum(step.phase == Phase.WARM_UP for step in one.series)
    window = steps[num_warm_up:]
    if num_warm_up:
        end = window[0] if window else steps[-1] + one.series[-1].num_steps
        axes.axvspan(steps[0] - 0.5, end - 0.5, **_shade(palette, one.steady))
    if window:
        median = float(np.median(measured_ms(one.series))) / divisor
        axes.hlines(median, window[0], window[-1], color=palette.ink, gid="median", **_MEDIAN)
    axes.set_xlim(steps[0] - 0.5, steps[-1] + 0.5)
    axes.set_ylim(0, 1.08 * max(times) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel("step")
    axes.set_ylabel(f"{unit} per step")


def _shade(palette: Palette, steady: bool) -> dict[str, Any]:
    hatch = "////" if steady else "xxxx"
    look = {"facecolor": "none", "edgecolor": palette.faint, "linewidth": 0}
    return {**look, "hatch": hatch, "zorder": 0.7}


def _legend(shown: Sequence[Stepped], palette: Palette) -> list[Artist]:
    dots: dict[str, Any] = {"marker": ".", "linestyle": "none"}
    faint, ink = palette.faint, palette.ink
    found: list[Artist] = [
        Line2D([], [], color=faint, label="measured steps", **dots),
        Line2D([], [], color=faint, label="middle half of them", **_MIDDLE_HALF),
        Line2D([], [], color=ink, label="median of a process", **_MEDIAN_OF_PROCESS),
        Line2D([], [], color=ink, label="measured, at its median", **_MEDIAN),
    ]
    for steady in dict.fromkeys(one.steady for one in shown):
        label = "warm-up" if steady else "warm-up, not steady at its end"
        found.append(Patch(label=label, **_shade(palette, steady)))
    return found

"""Step times: their distribution per trial, and step by step with the warm-up marked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis.pivot import Table, varied_tables
from analysis.results import Result
from analysis.titles import headings
from plots import drawing
from plots.drawing import (
    FAINT,
    INK,
    SMALL_PT,
    NothingToShow,
    Picture,
    file_names,
    series_color,
    tinted,
)
from plots.lines import at_most, completed, name_rows, row_names, rows_in, typical
from plots.source import PlotSource
from scalemark.records.measurement import Phase, StepSample, counted_calls

ABOUT = "distribution of step times per trial, and step by step with the warm-up marked"

MOST_SERIES = 4
_MEDIAN: dict[str, Any] = {"linestyle": "--", "linewidth": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """A trial with the steps of its completed processes."""

    name: str
    result: Result
    measured_ms: tuple[float, ...]  # time per step of the calls that count, of all processes
    series: Sequence[StepSample]  # of the process that is typical of the trial
    is_steady: bool  # its warm-up had ended when measuring began


def draw(source: PlotSource) -> Iterator[Picture]:
    """Yield a picture per model and machine that has steps."""
    able = []
    for table in varied_tables(source.results, across="num_gpus"):
        stepped, notes = _stepped(source, table)
        if stepped:
            able.append((table, stepped, notes))
    if not able:
        raise NothingToShow("no step is stored of a completed attempt")
    names = file_names([table for table, _, _ in able])
    for name, (table, stepped, notes) in zip(names, able, strict=True):
        yield _picture(table, name, stepped, notes, source)


def _stepped(source: PlotSource, table: Table) -> tuple[list[Stepped], list[str]]:
    """Return trials that have steps, and a note on those left out."""
    attempts: dict[str, list[int]] = {}
    for result in table.results:
        rows = completed(source, result)
        attempts[result.trial_id] = [row["attempt"] for row in rows]
    samples = source.steps(list(chain.from_iterable(attempts.values())))
    able = []
    for result in table.results:
        ids = [attempt for attempt in attempts[result.trial_id] if attempt in samples]
        attempts[result.trial_id] = ids
        if ids:
            able.append(result)
    kept, notes = at_most(able)
    names = row_names(table)
    trials = []
    for result in kept:
        ids = attempts[result.trial_id]
        attempt = typical(source, result)
        shown = attempt["attempt"] if attempt["attempt"] in samples else ids[-1]
        times: list[float] = []
        for attempt_id in ids:
            times += measured_ms(samples[attempt_id])
        trial = Stepped(
            name=names[result.trial_id],
            result=result,
            measured_ms=tuple(times),
            series=samples[shown],
            is_steady=bool(attempt["steady"]),
        )
        trials.append(trial)
    return trials, notes


def measured_ms(steps: Sequence[StepSample]) -> tuple[float, ...]:
    """Return the time per step of the calls that count."""
    return tuple(map(_ms, counted_calls(steps)))


def _ms(step: StepSample) -> float:
    return 1000 * step.duration_s / step.num_steps


def _picture(
    table: Table,
    name: str,
    stepped: Sequence[Stepped],
    notes: Sequence[str],
    source: PlotSource,
) -> Picture:
    most = max(trial.result.num_gpus for trial in stepped)
    on_most = [trial for trial in stepped if trial.result.num_gpus == most]
    on_most.sort(key=lambda trial: trial.result.throughput or 0.0, reverse=True)
    series = on_most[:MOST_SERIES]
    num_rows = (len(series) + 1) // 2
    figure, grid = drawing.panels(1 + num_rows, 1.5)
    rows_height_in = rows_in([trial.name for trial in stepped])
    heights = [max(rows_height_in + 0.5, 0.8), *([1.4] * num_rows)]
    for axes in grid:
        axes.remove()
    figure.set_figheight(sum(heights) + 1.0)
    rows = figure.add_gridspec(len(heights), 2, height_ratios=heights)
    title, setting = headings(table, "step times")
    drawing.set_title(figure, title)
    _draw_distributions(figure.add_subplot(rows[0, :]), stepped, source.looks)
    marks = list(notes)
    for place, trial in enumerate(series):
        axes = figure.add_subplot(rows[1 + place // 2, place % 2])
        _draw_series(axes, trial, series_color(source.looks[trial.result.strategy]))
        if not trial.is_steady:
            marks.append(f"warm-up not ended: {trial.name}")
    drawing.add_legend(figure, _handles())
    about = list(notes)
    if len(series) < len(stepped):
        about.append(f"step by step: {len(series)} of {len(stepped)}, the fastest on most devices")
    return Picture(
        name=name, figure=figure, setting=setting, results=table.results, marks=marks, about=about
    )


def _draw_distributions(axes: Axes, stepped: Sequence[Stepped], looks: Mapping[str, int]) -> None:
    """Draw from the 5th to the 95th percentile, the middle half as a bar, the median as a tick."""
    name_rows(axes, [trial.name for trial in stepped])
    ends: list[float] = []
    for row, trial in enumerate(stepped):
        if not trial.measured_ms:
            continue
        ends += trial.measured_ms
        low, first, middle, third, high = np.percentile(trial.measured_ms, (5, 25, 50, 75, 95))
        color = series_color(looks[trial.result.strategy])
        axes.plot([low, high], [row, row], color=color, linewidth=1, gid="range")
        axes.plot([first, third], [row, row], color=color, linewidth=6, gid="middle half")
        axes.plot([middle], [row], color=INK, marker="|", markersize=9, gid="median")
    if ends and max(ends) > 16 * max(min(ends), 1e-9):
        axes.set_xscale("log")
        axes.set_xlabel("ms per step, measured steps (log)")
    else:
        axes.set_xlim(left=0)
        axes.set_xlabel("ms per step, measured steps")


def _draw_series(axes: Axes, trial: Stepped, color: str) -> None:
    """Draw every call, warm-up shaded; a line over the window, at its median."""
    steps, times = [], []
    num_warm_up = 0
    for step in trial.series:
        steps.append(step.step)
        times.append(_ms(step))
        num_warm_up += step.phase == Phase.WARM_UP
    axes.plot(steps, times, color=color, linewidth=1, gid="steps")
    window = steps[num_warm_up:]
    if num_warm_up:
        end = window[0] if window else steps[-1] + trial.series[-1].num_steps
        axes.axvspan(steps[0] - 0.5, end - 0.5, **_shade())
    measured = measured_ms(trial.series)
    if window and measured:
        median = float(np.median(measured))
        axes.hlines(median, window[0], window[-1], color=INK, gid="median", **_MEDIAN)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlabel("step")
    axes.set_ylabel("ms per step")
    axes.set_title(drawing.label(trial.name), fontsize=SMALL_PT)


def _shade() -> dict[str, Any]:
    return {"facecolor": tinted(FAINT, 0.25), "edgecolor": "none", "zorder": 0.7}


def _handles() -> dict[str, Artist]:
    faint, ink = FAINT, INK
    return {
        "5 % to 95 % of the steps": Line2D([], [], color=faint, linewidth=1),
        "middle half": Line2D([], [], color=faint, linewidth=6),
        "median": Line2D([], [], color=ink, marker="|", markersize=9, linestyle="none"),
        "median of the window": Line2D([], [], color=ink, **_MEDIAN),
        "warm-up": Patch(**_shade()),
    }

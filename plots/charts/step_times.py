"""Step times: their distribution per trial, and from the first step on, with warm-up and the
measured window marked.
"""

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

from analysis.pivot import Table, pivot
from analysis.results import Result
from analysis.text.titles import headings, table_notes
from plots.looks import Looks
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.lettering import height_in
from plots.pictures.rows import beside, centers_in, left_in, name_rows, row_name, rows_in, scale_x
from plots.pictures.sheet import Sheet
from plots.pictures.theme import SMALL_PT, Palette
from plots.pictures.typical import at_most, completed, typical
from plots.source import Source
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from scalemark.stats.counted_calls import counted_calls
from store.reading.queries import Row

ABOUT = (
    "distribution of step times per trial, and step by step with warm-up and steady state marked"
)

MOST_TRIALS = 24
MOST_SERIES = 4
_MOST_DOTS = 200  # of a trial: more would only blacken the picture
_ROW_IN = 0.24
_LONG_MS = 5000  # from here on steps are told in seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """A trial with the steps of its completed processes."""

    result: Result
    # of each process: time per step, of the calls that count
    measured_ms: tuple[tuple[float, ...], ...]
    series: Sequence[StepSample]  # of the process that stands for the trial
    steady: bool  # that one saw the steady state


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per model, setting and machine that has steps."""
    tables = pivot(source.results)
    found = [_stepped(source, table) for table in tables]
    if not any(stepped for stepped, _ in found):
        raise NothingToShow("no step is stored of a completed attempt")
    for table, name, (stepped, left_out) in zip(tables, file_names(tables), found, strict=True):
        if stepped:
            yield _picture(
                table, name, stepped, source.looks, [*table_notes(table), *left_out], palette
            )


def _stepped(source: Source, table: Table) -> tuple[list[Stepped], list[str]]:
    """Trials that have steps, and a note on those left out."""
    attempts = {result.trial_id: completed(source, result) for result in table.results}
    samples = source.steps([attempt["attempt"] for of in attempts.values() for attempt in of])
    able = [
        result
        for result in table.results
        if any(attempt["attempt"] in samples for attempt in attempts[result.trial_id])
    ]
    kept, left_out = at_most(able, MOST_TRIALS)
    return [
        _of_trial(source, result, attempts[result.trial_id], samples) for result in kept
    ], left_out


def _of_trial(
    source: Source,
    result: Result,
    attempts: Sequence[Row],
    samples: Mapping[int, Sequence[StepSample]],
) -> Stepped:
    able = [attempt for attempt in attempts if attempt["attempt"] in samples]
    shown = typical(source, result)
    if shown["attempt"] not in samples:
        shown = able[-1]
    return Stepped(
        result=result,
        measured_ms=tuple(measured_ms(samples[attempt["attempt"]]) for attempt in able),
        series=samples[shown["attempt"]],
        steady=bool(shown["steady"]),
    )


def measured_ms(steps: Sequence[StepSample]) -> tuple[float, ...]:
    """Per step, of the calls that count."""
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
    sheet.text(f"strategy x number of {table.place.devices}", color=palette.faint)
    axes = sheet.axes(rows_in(names, _ROW_IN), left_in(names), 0.2)
    name_rows(axes, names, _ROW_IN)
    for center_in, one in zip(centers_in(names, _ROW_IN), found, strict=True):
        _distribution(axes, center_in, one, colors[one.result.strategy], palette)
    scale_x(axes, [time for one in found for of in one.measured_ms for time in of] or [0.0])
    axes.set_xlabel("ms per step, measured steps")
    sheet.gap(0.42)
    shown = _step_by_step(found)
    for start in range(0, len(shown), 2):
        _pair(sheet, shown[start : start + 2], colors, palette)
    legend = _legend(shown, palette)
    sheet.legend(legend, [str(handle.get_label()) for handle in legend])
    return Picture(name=name, figure=sheet.finished(), about=[*about, *_left_out(shown, found)])


def _step_by_step(found: Sequence[Stepped]) -> list[Stepped]:
    """On the most GPUs, the fastest."""
    most = max(one.result.num_gpus for one in found)
    on_most = [one for one in found if one.result.num_gpus == most]
    return sorted(on_most, key=lambda one: one.result.throughput or 0.0, reverse=True)[:MOST_SERIES]


def _left_out(shown: Sequence[Stepped], found: Sequence[Stepped]) -> list[str]:
    if len(shown) == len(found):
        return []
    told = f"step by step: {len(shown)} of {len(found)} trials, the fastest on the most devices"
    return [f"{told}; see another with strategy=NAME num_gpus=N"]


def _distribution(axes: Axes, center_in: float, one: Stepped, color: str, palette: Palette) -> None:
    """All measured steps as dots, the middle half as a bar, the median of each process as a
    tick.
    """
    times = np.sort(np.concatenate(one.measured_ms))
    if not len(times):
        return
    dots = times[np.unique(np.linspace(0, len(times) - 1, _MOST_DOTS).astype(int))]
    below = center_in + 0.02 + 0.07 * (0.618 * np.arange(len(dots)) % 1)
    axes.plot(dots, below, ".", color=color, markersize=2.5, alpha=0.7, rasterized=True, gid="dots")
    low, high = np.percentile(times, (25, 75))
    axes.plot(
        [low, high],
        [center_in - 0.04] * 2,
        color=color,
        linewidth=5,
        solid_capstyle="butt",
        gid="middle half",
    )
    medians = [float(np.median(of)) for of in one.measured_ms if of]
    axes.plot(
        medians,
        [center_in - 0.04] * len(medians),
        "|",
        color=palette.ink,
        markersize=8,
        gid="medians",
    )


def _pair(
    sheet: Sheet, shown: Sequence[Stepped], colors: Mapping[str, str], palette: Palette
) -> None:
    """Two trials step by step, side by side."""
    titles = [row_name(one.result) for one in shown]
    sheet.gap(max(height_in(title, SMALL_PT) for title in titles) + 0.1)
    for axes, one, title in zip(
        beside(sheet, 1.1, 0.55, 0.52, [1] * len(shown)), shown, titles, strict=True
    ):
        _steps(axes, one, colors[one.result.strategy], palette)
        axes.set_title(title, fontsize=SMALL_PT, pad=4, linespacing=1.1)
    sheet.gap(0.45)


def _steps(axes: Axes, one: Stepped, color: str, palette: Palette) -> None:
    """Every call, warm-up shaded; a line over the window, at its median."""
    steps, times = [step.step for step in one.series], [_ms(step) for step in one.series]
    unit, times, divisor = (
        ("s", [time / 1000 for time in times], 1000) if max(times) >= _LONG_MS else ("ms", times, 1)
    )
    axes.plot(steps, times, color=color, linewidth=1, marker=".", markersize=3, gid="steps")
    num_warm_up = sum(step.phase == Phase.WARM_UP for step in one.series)
    window = steps[num_warm_up:]
    if num_warm_up:
        end = window[0] if window else steps[-1] + one.series[-1].num_steps
        axes.axvspan(steps[0] - 0.5, end - 0.5, **_shade(palette, one.steady))
    if window:
        median = float(np.median(measured_ms(one.series))) / divisor
        axes.hlines(
            median,
            window[0],
            window[-1],
            color=palette.ink,
            linestyle="--",
            linewidth=1,
            gid="median",
        )
    axes.set_xlim(steps[0] - 0.5, steps[-1] + 0.5)
    axes.set_ylim(0, 1.08 * max(times) or 1)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel("step")
    axes.set_ylabel(f"{unit} per step")


def _shade(palette: Palette, steady: bool) -> dict[str, Any]:
    return {
        "facecolor": "none",
        "edgecolor": palette.faint,
        "hatch": "////" if steady else "xxxx",
        "linewidth": 0,
        "zorder": 0.7,
    }


def _legend(shown: Sequence[Stepped], palette: Palette) -> list[Artist]:
    shades = {
        one.steady: "warm-up" if one.steady else "warm-up, not steady at its end" for one in shown
    }
    return [
        Line2D([], [], color=palette.faint, marker=".", linestyle="none", label="measured steps"),
        Line2D(
            [],
            [],
            color=palette.faint,
            linewidth=5,
            solid_capstyle="butt",
            label="middle half of them",
        ),
        Line2D(
            [],
            [],
            color=palette.ink,
            marker="|",
            linestyle="none",
            markersize=8,
            label="median of a process",
        ),
        Line2D(
            [], [], color=palette.ink, linestyle="--", linewidth=1, label="measured, at its median"
        ),
        *(Patch(label=name, **_shade(palette, steady)) for steady, name in shades.items()),
    ]

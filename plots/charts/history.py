"""Draws throughput over nights: of all trials of a machine, and of those that changed together."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import MaxNLocator

from analysis.guard.changes import Change, ChangeState, changes, sentence
from analysis.guard.histories import Record, histories
from analysis.guard.noise import Places
from analysis.guard.scan import FEWEST_NIGHTS, LEAST, mean_series
from analysis.selection import NothingFoundError
from plots import drawing
from plots.drawing import SERIES, SMALL_PT, NothingToShow, Picture
from plots.source import PlotSource
from scalemark.text.wording import counted

ABOUT = "throughput over nights, and each change of it, for trials that changed together"

MOST_TRACKS = 6  # beside that of all trials
_TRACK_IN = 1.2
_number: Callable[[Any], Any] = date2num  # which has no types


def draw(source: PlotSource) -> Iterator[Picture]:
    """Yield a picture per machine, and of each how often its trials are measured."""
    try:
        records = histories(source.selection)
    except NothingFoundError as error:
        raise NothingToShow(str(error)) from None
    able = [record for record in records if len(record.nights) >= FEWEST_NIGHTS]
    if not able:
        raise NothingToShow(f"nothing was measured in {FEWEST_NIGHTS} nights or more")
    every = changes(records, LEAST)
    hosts = [record.host for record in able]
    for number, record in enumerate(able):
        is_several = hosts.count(record.host) > 1
        name = f"{record.host}-{number + 1}" if is_several else record.host
        yield _picture(record, name, every, source)


def _picture(record: Record, name: str, every: Sequence[Change], source: PlotSource) -> Picture:
    tracks = _tracks(record, every)
    shown = list(tracks.items())[: MOST_TRACKS + 1]
    days = [night.day for night in record.nights]
    figure, grid = drawing.panels(len(shown), _TRACK_IN)
    num_trials, num_nights = counted(len(record.cells), "trial"), counted(len(days), "night")
    drawing.set_title(figure, f"throughput of {num_trials} over {num_nights}")
    for axes, (cells, of_track) in zip(grid, shown, strict=True):
        _draw_track(axes, record, np.array(cells), of_track)
    marks = ["line: regression", "dotted: other change"] if tracks else []
    if len(tracks) > len(shown):
        marks.append(f"not drawn: {len(tracks) - len(shown)} more groups of trials that changed")
    return Picture(
        name=name,
        figure=figure,
        setting=f"{days[0]} .. {days[-1]}, percent of the first {FEWEST_NIGHTS} nights",
        results=[result for result in source.results if result.environment.host == record.host],
        marks=marks,
    )


def _tracks(record: Record, every: Sequence[Change]) -> Mapping[tuple[int, ...], list[Change]]:
    """Return the changes by the places of the cells that they hit; all cells come first."""
    places = {id(cell): place for place, cell in enumerate(record.cells)}
    tracks: dict[tuple[int, ...], list[Change]] = {tuple(range(len(record.cells))): []}
    for change in every:
        cells = tuple(sorted(places[id(cell)] for cell in change.cells if id(cell) in places))
        if cells:
            tracks.setdefault(cells, []).append(change)
    return tracks


def _draw_track(axes: Axes, record: Record, cells: Places, of_track: Sequence[Change]) -> None:
    is_all = len(cells) == len(record.cells)
    name = f"all {counted(len(cells), 'trial')}" if is_all else ""
    text = "; ".join(filter(None, [name, *map(sentence, of_track)]))
    axes.set_title(textwrap.fill(drawing.drawable(text), 95), loc="left", fontsize=SMALL_PT)
    series, _ = mean_series(record.logs[cells], np.ones(len(cells)))
    known = np.isfinite(record.logs[cells]).any(axis=0)
    days = _number([night.day for night in record.nights])[known]
    percent = 100 * np.exp(series[known] - series[known][:FEWEST_NIGHTS].mean())
    axes.plot(days, percent, ".", markersize=2.2, color=SERIES[0], alpha=0.7)
    for change in of_track:
        is_open = change.state is ChangeState.REGRESSION
        look: dict[str, Any] = {"linestyle": "-" if is_open else ":", "linewidth": 1.2}
        color = SERIES[1] if change.is_slower else SERIES[2]
        axes.axvline(_number(change.first) - 0.5, color=color, **look)
        if change.latest > change.earliest:
            low, high = _number(change.earliest) - 0.5, _number(change.latest) - 0.5
            axes.axvspan(low, high, color=color, alpha=0.3)
    axes.set_xlim(_number(record.nights[0].day) - 2, _number(record.nights[-1].day) + 2)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter("{x:.0f} %")
    locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)

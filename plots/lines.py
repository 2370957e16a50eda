"""Charts of lines, a figure per model."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullFormatter, NullLocator

from analysis.labels import Label
from analysis.pivot import Table, varied_tables
from analysis.results import Result
from analysis.titles import FEW_REPEATS, headings, short_title
from plots import drawing
from plots.drawing import (
    FAINT,
    GROUND,
    SMALL_PT,
    NothingToShow,
    Picture,
    file_names,
    series_style,
)
from plots.layout import MEANINGS, SYMBOLS
from plots.source import PlotSource
from scalemark.records.axes import is_env_variable
from scalemark.records.measurement import Outcome

T = TypeVar("T")

BARS = "bars: 95 % CI"
RUNS = "dots: single repeats"
MOST_LINES = 12  # in one panel
MOST_PANELS = 12  # in one picture
_PANEL_IN, _SMALL_PANEL_IN = 2.6, 1.9
_LOG_FROM = 16  # times the smallest value along the x axis: a linear axis presses more together
_IDEAL_ROOM = 1.3  # the ideal line is cut where it leaves the values behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is drawn of one result."""

    value: float
    low: float | None = None  # 95 % CI
    high: float | None = None
    repeats: tuple[float, ...] = ()  # shown instead of an interval where they are few


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """One kind of chart."""

    along: str  # the axis of trials along x
    title: Callable[[Table], str]
    point: Callable[[Result], Point | None]
    lack: str  # why there may be nothing to show
    x_label: Callable[[Table], str] = lambda table: f"number of {table.environment.devices}"
    ideal: Callable[[Sequence[Result]], list[tuple[int, float]]] = lambda _: []
    least_points: int = 2  # of the longest line
    is_share: bool = False  # in percent, always on a linear axis
    about: Callable[[Table], list[str]] = lambda _: []

    def is_doubted(self, result: Result) -> bool:
        """Return whether a point is hollow: a share of a baseline also for the baseline's sake."""
        return bool(result.doubts or (self.is_share and result.speed_up_doubts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    title: str
    lines: Mapping[str, Sequence[Result]]

    @property
    def results(self) -> list[Result]:
        return [result for of_line in self.lines.values() for result in of_line]


def draw_lines(source: PlotSource, chart: LineChart) -> Iterator[Picture]:
    """Yield a picture per model and machine that has a line."""
    tables = varied_tables(source.results, across=chart.along)
    able = []
    for table in tables:
        points = [sum(map(bool, map(chart.point, of_row(table, row)))) for row in table.rows]
        if max(points) >= chart.least_points:
            able.append(table)
    if not able:
        raise NothingToShow(chart.lack)
    for table, name in zip(able, file_names(able), strict=True):
        yield _picture(table, name, source, chart)
    if len(able) < len(tables):
        raise NothingToShow(chart.lack, len(tables) - len(able), len(tables))


def of_row(table: Table, row: Label) -> list[Result]:
    """Return the results of a row, in the order of the columns."""
    results = []
    for column in table.columns:
        if (row, column) in table.cells:
            results.append(table.cells[row, column].result)
    return results


def line_name(table: Table, row: Label) -> str:
    """Return the name of a line, as `ps_cpu over 2 hosts, fp16`."""
    if all(axis in ("strategy", "hosts") or is_env_variable(axis) for axis in table.rows_by):
        return of_row(table, row)[0].line
    return short_title(table, table.rows_by, row)


def looks_of(names: Sequence[str], source: PlotSource) -> dict[str, int]:
    """Return the number of the look of each line: strategies look alike in every chart."""
    if source.looks.keys() >= set(names):
        return {name: source.looks[name] for name in names}
    return dict(zip(names, itertools.count()))


def _picture(table: Table, name: str, source: PlotSource, chart: LineChart) -> Picture:
    shown, notes = _panels(table, chart)
    lines: dict[str, Sequence[Result]] = {}
    for panel in shown:
        lines |= panel.lines
    looks = looks_of(list(lines), source)
    names = sorted(lines, key=lambda name: -fastest(lines[name]))
    is_single = len(shown) == 1
    height_in, columns = _SMALL_PANEL_IN, 2
    if is_single:
        height_in, columns = _PANEL_IN, 1
    figure, grid = drawing.panels(
        len(shown), height_in, columns=columns, names=names, is_shared=not is_single
    )
    title, setting = headings(table, chart.title(table))
    drawing.set_title(figure, title)
    handles: dict[str, Artist] = {}
    marks: list[str] = []
    ideals: list[tuple[int, float]] = []
    for axes, panel in zip(grid, shown, strict=True):
        if panel.title:
            drawing.small_title(axes, panel.title)
        handles |= _draw_panel(axes, panel, looks, chart)
        marks += _marks(panel, chart)
        ideals += chart.ideal(panel.results)
    counts = {int(result.axes[chart.along]) for panel in shown for result in panel.results}
    points = [chart.point(result) for panel in shown for result in panel.results]
    for axes in grid:  # panels share their axes
        _scale_x(axes, sorted(counts))
        _scale_y(axes, max(map(top_of, points)), ideals, chart, is_log=_is_wide(counts))
    x_label = chart.x_label(table)
    if _is_wide(counts):
        x_label += " (log)"
    if not is_single:
        x_label = drawing.label(x_label)
    for axes in grid[-2:]:  # one of them may stand above an empty place
        axes.set_xlabel(x_label)
        axes.tick_params(labelbottom=True)
    # the ideal line comes last
    drawing.add_legend(figure, {name: handles[name] for name in (*names, *handles)})
    return Picture(
        name=name,
        figure=figure,
        setting=setting,
        results=table.results,
        marks=[*marks, *notes],
        about=chart.about(table),
    )


def _panels(table: Table, chart: LineChart) -> tuple[list[_Panel], list[str]]:
    """Return one panel with all lines, or of many one for each setting beside the strategy."""
    grouped: dict[str, dict[str, list[Result]]] = defaultdict(dict)
    place = _line_axis(table)
    others = [axis for number, axis in enumerate(table.rows_by) if number != place]
    for row in table.rows:
        results = of_row(table, row)
        results.sort(key=lambda result: int(result.axes[chart.along] or 0))
        if len(table.rows) <= MOST_LINES:
            grouped[""][line_name(table, row)] = results
            continue
        rest = tuple(value for number, value in enumerate(row) if number != place)
        key = short_title(table, others, rest) if others else ""
        name = short_title(table, table.rows_by[place : place + 1], row[place : place + 1])
        grouped[key][name] = results
    best = best_of(grouped, lambda lines: max(map(fastest, lines.values())), MOST_PANELS)
    notes = []
    if len(best) < len(grouped):
        notes.append(f"not drawn: {len(grouped) - len(best)} slower settings of {len(grouped)}")
    shown = []
    for key in best:
        lines = grouped[key]
        kept = best_of(lines, fastest, MOST_LINES)
        if len(kept) < len(lines):
            notes.append(f"not drawn: {len(lines) - len(kept)} slower lines of {len(lines)}")
        shown.append(_Panel(title=key, lines=kept))
    return shown, notes


def best_of(every: Mapping[str, T], speed: Callable[[T], float], most: int) -> dict[str, T]:
    """Return so many of them at most, the fastest, in their order."""
    names = sorted(every, key=lambda name: -speed(every[name]))[:most]
    return {name: value for name, value in every.items() if name in names}


def _line_axis(table: Table) -> int:
    """Return the place of the axis whose values are lines; those of the others are panels."""
    if "strategy" in table.rows_by:
        return table.rows_by.index("strategy")
    num_values = [len(set(values)) for values in zip(*table.rows, strict=True)]
    return num_values.index(max(num_values))


def fastest(results: Sequence[Result]) -> float:
    return max((result.throughput or 0.0 for result in results), default=0.0)


def _draw_panel(
    axes: Axes, panel: _Panel, looks: Mapping[str, int], chart: LineChart
) -> dict[str, Artist]:
    handles: dict[str, Artist] = {}
    failing: dict[int, int] = defaultdict(int)
    hollow = {"linestyle": "none", "markerfacecolor": GROUND, "gid": "doubt", "zorder": 3}
    for name, results in panel.lines.items():
        style = series_style(looks[name])
        xs, ys = [], []
        for result in results:
            at = int(result.axes[chart.along])
            point = chart.point(result)
            if point is not None:
                xs.append(at)
                ys.append(point.value)
                draw_spread(axes, at, point.repeats, point.low, point.high, color=style["color"])
                if chart.is_doubted(result):
                    axes.plot([at], [point.value], **style | hollow)
            elif result.throughput is None:
                symbol = SYMBOLS[Outcome(result.outcome)]
                look = {"color": style["color"], "xycoords": axes.get_xaxis_transform()}
                write_above(axes, (at, 0), symbol, SMALL_PT - 1, 2 + 8 * failing[at], **look)
                failing[at] += 1
        axes.plot(xs, ys, label=name, **style)
        handles[name] = Line2D([], [], **style)
    ideal = chart.ideal(panel.results)
    if len(ideal) > 1:
        dotted: dict[str, Any] = {"color": FAINT, "linestyle": (0, (1, 2))}
        axes.plot(*zip(*ideal, strict=True), label="ideal", **dotted)
        handles["ideal"] = Line2D([], [], **dotted)
    return handles


def top_of(point: Point | None) -> float:
    """Return how far up a point is drawn: all of its runs, of an interval a part."""
    if point is None:
        return 0.0
    if _has_runs(point.repeats):
        return max(point.repeats)
    return max(point.value, min(point.high or 0.0, 1.25 * point.value))


def _has_runs(repeats: Sequence[float]) -> bool:
    return 1 < len(repeats) < FEW_REPEATS


def draw_spread(
    axes: Axes,
    at: float,
    repeats: Sequence[float],
    low: float | None,
    high: float | None,
    **look: Any,
) -> None:
    """Draw an interval, or the runs where they are few."""
    if _has_runs(repeats):
        runs: dict[str, Any] = {"linestyle": "none", "marker": ".", "markersize": 3, "gid": "runs"}
        axes.plot([at] * len(repeats), repeats, **runs, color=look["color"])
    elif low is not None and high is not None:
        axes.vlines(at, low, high, linewidth=1, gid="interval", **look)


def write_above(
    axes: Axes, place: tuple[float, float], text: str, size_pt: float, by_pt: float, **look: Any
) -> None:
    """Write a text so many points above a place."""
    offset: dict[str, Any] = {"xytext": (0, by_pt), "textcoords": "offset points"}
    axes.annotate(text, place, **offset, ha="center", va="bottom", fontsize=size_pt, **look)


def _is_wide(counts: Iterable[int]) -> bool:
    return max(counts) > _LOG_FROM * max(min(counts), 1)


def _scale_x(axes: Axes, counts: Sequence[int]) -> None:
    first, last = counts[0], counts[-1]
    if _is_wide(counts) and first > 0:
        axes.set_xscale("log", base=2)
        aside = max(last / first, 2) ** 0.05
        axes.set_xlim(first / aside, last * aside)  # failures at the ends are in sight, too
    else:
        aside = 0.05 * max(last - first, 1)
        axes.set_xlim(first - aside, last + aside)
    ticks = list(counts)
    if len(ticks) > 8:  # labels would touch
        ticks = ticks[:: math.ceil(len(ticks) / 8)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter(list(map(str, ticks))))
    axes.xaxis.set_minor_locator(NullLocator())


def _scale_y(
    axes: Axes,
    highest: float,
    ideal: Sequence[tuple[int, float]],
    chart: LineChart,
    *,
    is_log: bool,
) -> None:
    if is_log and not chart.is_share and highest > 0:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        return
    top = max([highest, *(min(value, _IDEAL_ROOM * highest) for _, value in ideal)])
    axes.set_ylim(0, 1.06 * top or 1)
    if chart.is_share:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")


def _marks(panel: _Panel, chart: LineChart) -> list[str]:
    """Return what the marks of a panel mean."""
    results = panel.results
    points = list(filter(None, map(chart.point, results)))
    marks: list[str] = []
    for point in points:
        if _has_runs(point.repeats):
            marks.insert(0, RUNS)
        elif point.low is not None:
            marks.append(BARS)
    if any(map(chart.is_doubted, results)):
        marks.append("hollow: in doubt")
    return list(dict.fromkeys([*marks, *failure_marks(results)]))


def failure_marks(results: Iterable[Result]) -> list[str]:
    """Return what the symbols of trials without a number mean."""
    marks: dict[str, None] = {}
    for result in results:
        if result.throughput is None:
            symbol = SYMBOLS[Outcome(result.outcome)]
            marks[f"{symbol}: {MEANINGS[symbol]}"] = None
    return list(marks)


def throughput_point(result: Result) -> Point | None:
    """Return the throughput with its spread; of a single run no interval is known."""
    if result.throughput is None:
        return None
    low = high = None
    if len(result.repeats) > 1:
        low, high = result.low, result.high
    return Point(value=result.throughput, low=low, high=high, repeats=result.repeats)

"""Throughput of each strategy on each number of GPUs as grouped bars, their speed-ups on them; a
panel per model, as in the article on TensorFlow's benchmarks of 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.markers import CARETUP
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator
from matplotlib.transforms import offset_copy

from analysis.pivot import pivot
from analysis.results import Result
from analysis.tables.axes import axes_of
from analysis.tables.labels import lines, with_variables
from analysis.tables.table import Table
from analysis.text.numbers import number
from analysis.text.titles import scaled
from plots.pictures.axes import even_ticks, tick_names
from plots.pictures.by_model import Models
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.footer import CUT, WHISKERS, doubts
from plots.pictures.lettering import height_in, width_in
from plots.pictures.points import PARTLY, partly_failed, partly_marked, symbol
from plots.pictures.rows import HATCHES
from plots.pictures.sheet import MARGIN_IN, Sheet
from plots.pictures.theme import FOOTER_PT, SMALL_PT, WIDTH_IN, Palette
from plots.source import Source
from plots.tables.cells import SUSPECT

ABOUT = "throughput of each strategy on each GPU count as bars, with speed-ups, a panel per model"

MOST_MODELS = 6  # in one picture
_HEIGHT_IN, _ALONE_IN = 1.35, 2.3  # of a panel; of the only one
_BAR_IN, _WIDEST_BAR_IN = 0.13, 0.3  # of a bar's place, where the picture may grow; at most
_LEAST_LABELED_IN = 0.1  # an upright label needs as much: only the best have one on narrower bars
_GROUP_GAP_IN = 0.16
_WIDEST_IN = 9.0  # of a picture: bars are as narrow as that demands
_ROOM = 1.04  # above the highest bar, times its height, beside what labels need
_LOWEST_WHISKER = 1.25  # the axis makes room for whiskers that reach so many times the value


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The places of all bars of a picture, the same in all of its panels."""

    lines: Sequence[str]  # strategies, from left to right in each group
    gpus: Sequence[int]
    bar_in: float  # width of a place
    gap_in: float  # between groups

    @property
    def group_in(self) -> float:
        return len(self.lines) * self.bar_in + self.gap_in

    @property
    def width_in(self) -> float:
        return len(self.gpus) * self.group_in

    def at_in(self, result: Result) -> float:
        """Return the middle of its bar."""
        before = self.lines.index(result.line) + 0.5
        return self.left_in(result.num_gpus) + before * self.bar_in

    def left_in(self, num_gpus: int) -> float:
        return self.gpus.index(num_gpus) * self.group_in + self.gap_in / 2


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per setting and machine with two numbers or more, of at most `MOST_MODELS`
    models.
    """
    down = (*with_variables(lines(source.results), source.results), "num_gpus")
    across = ("model",) if "model" in axes_of(source.results) else ()
    tables = pivot(source.results, down, across)
    able = [table for table in tables if _num_numbers(table.results) > 1]
    if not able:
        raise NothingToShow(
            "there is one number alone" if _num_numbers(source.results) else "no trial completed"
        )
    for table, name in zip(able, file_names(able), strict=True):
        labels = list(table.columns)
        for start in range(0, len(labels), MOST_MODELS):
            part = "" if start == 0 else str(start // MOST_MODELS + 1)
            shown = labels[start : start + MOST_MODELS]
            own = "-".join(filter(None, [name, part]))
            yield _picture(table, shown, own, source, palette)
    if len(able) < len(tables):
        raise NothingToShow("one number alone, or none", len(tables) - len(able), len(tables))


def _num_numbers(results: Sequence[Result]) -> int:
    return sum(result.throughput is not None for result in results)


def _picture(
    table: Table, columns: Sequence[tuple[Any, ...]], name: str, source: Source, palette: Palette
) -> Picture:
    panels = [
        [table.cells[row, column].result for row in table.rows if (row, column) in table.cells]
        for column in columns
    ]
    results = [result for panel in panels for result in panel]
    found = sorted({result.line for result in results}, key=lambda line: source.looks[line])
    gpus = sorted({result.num_gpus for result in results})
    models = Models(table=table)
    highest = max(map(_reach, results))
    left_in = MARGIN_IN + 0.1 + max(width_in(one, SMALL_PT) for one in _tick_names(highest))
    grid = _grid(found, gpus, left_in)
    sheet = Sheet(palette, max(WIDTH_IN, left_in + grid.width_in + MARGIN_IN))
    headline = scaled(table.unit, table)
    if len(columns) == 1 and columns[0]:
        headline = f"{columns[0][0]}: {headline}"
    sheet.heading(headline, models.setting())
    for column, panel in zip(columns, panels, strict=True):
        if len(columns) > 1:
            sheet.text(models.label(str(column[0]), sheet.inner_in).replace("\n", ": "), bold=True)
        _panel(sheet, panel, grid, left_in, source, is_alone=len(columns) == 1)
    devices = table.environment.devices
    sheet.text(f"number of {devices}; on the bars: {_speed_ups_in_words(results)}")
    sheet.gap(0.06)
    sheet.legend([Patch(**_look(palette, source.looks[line])) for line in found], found)
    marks = [WHISKERS] if any(result.low is not None for result in results) else []
    if any((one.high or 0.0) > _panel_reach(panel) for panel in panels for one in panel):
        marks.append(CUT)
    return Picture(
        name=name,
        figure=sheet.finished(),
        results=results,
        marks=[*marks, *doubts(results, SUSPECT), *partly_marked(results)],
        about=partly_failed(results),
    )


def _tick_names(highest: float) -> list[str]:
    return tick_names(even_ticks(_ROOM * highest))


def _speed_ups_in_words(results: Sequence[Result]) -> str:
    """Return what the numbers on the bars are over."""
    baselines = [one.baseline for one in results if one.baseline]
    if not baselines:
        return "throughput, for there is nothing to compare with"
    environment = results[0].environment
    if any(baseline.num_gpus > 1 for baseline in baselines):
        return f"times the same strategy on the fewest {environment.devices} it ran on"
    return f"times its own on {environment.counted(1)}"


def _grid(found: Sequence[str], gpus: Sequence[int], left_in: float) -> Grid:
    """Fill the usual width; grow for labels, as far as a picture may."""
    num_bars, gaps_in = len(found) * len(gpus), len(gpus) * _GROUP_GAP_IN
    bar_in = (WIDTH_IN - left_in - MARGIN_IN - gaps_in) / num_bars
    most_in = (_WIDEST_IN - left_in - MARGIN_IN - gaps_in) / num_bars
    bar_in = min(max(bar_in, _BAR_IN), _WIDEST_BAR_IN, max(most_in, 0.02))
    left_over_in = WIDTH_IN - left_in - MARGIN_IN - num_bars * bar_in
    gap_in = max(_GROUP_GAP_IN, left_over_in / len(gpus))  # few bars stand apart
    return Grid(lines=found, gpus=gpus, bar_in=bar_in, gap_in=gap_in)


def _panel(
    sheet: Sheet,
    panel: Sequence[Result],
    grid: Grid,
    left_in: float,
    source: Source,
    *,
    is_alone: bool,
) -> None:
    """Draw one model."""
    tall_in = _ALONE_IN if is_alone else _HEIGHT_IN
    sheet.gap(0.04)
    axes = sheet.axes(tall_in, left_in, sheet.width_in - left_in - grid.width_in)
    texts = {result.trial_id: _label(result) for result in panel}
    is_upright = _is_upright(texts.values(), grid)
    if is_upright:
        label_in = max(width_in(text, FOOTER_PT) for text in texts.values())
    else:
        label_in = height_in("0", FOOTER_PT)
    reach = _panel_reach(panel)
    axes.set_xlim(0, grid.width_in)
    axes.set_ylim(0, _ROOM * reach * tall_in / (tall_in - label_in - 0.06))
    _ticks(axes, grid, _ROOM * reach)
    for result in panel:
        look: dict[str, Any] = {"rotation": 90} if is_upright else {}
        _bar(axes, result, grid, source, sheet.palette, reach)
        has_room = not is_upright or grid.bar_in >= _LEAST_LABELED_IN
        if has_room or result.throughput is None or result is _best(panel, result):
            above = offset_copy(axes.transData, sheet.figure, 0, 0.03)
            axes.text(
                grid.at_in(result),
                _whisker_end(result, reach),
                texts[result.trial_id],
                transform=above,
                fontsize=FOOTER_PT,
                ha="center",
                va="bottom",
                **look,
            )
    sheet.gap(0.26)


def _bar(
    axes: Axes, result: Result, grid: Grid, source: Source, palette: Palette, reach: float
) -> None:
    if result.throughput is None:
        return
    at_in, look = grid.at_in(result), _look(palette, source.looks[result.line])
    label = f"{result.line} x {result.num_gpus}"
    axes.bar([at_in], [result.throughput], width=0.86 * grid.bar_in, label=label, **look)
    if result.low is not None and result.high is not None:
        ends = [result.low, _whisker_end(result, reach)]
        whisker: dict[str, Any] = {"color": palette.ink, "linewidth": 0.8, "gid": "interval"}
        axes.plot([at_in, at_in], ends, **whisker)
        if result.high > ends[1]:
            arrow: dict[str, Any] = {"marker": CARETUP, "markersize": 4, "gid": "beyond"}
            axes.plot([at_in], [ends[1]], color=palette.ink, **arrow)


def _look(palette: Palette, number: int) -> dict[str, Any]:
    """Return the look of a bar: hatches where colors begin again."""
    hatch = HATCHES[number // len(palette.series) % len(HATCHES)]
    return {
        "facecolor": palette.color(number),
        "edgecolor": palette.ground,
        "lw": 0,
        "hatch": hatch,
    }


def _panel_reach(panel: Sequence[Result]) -> float:
    """Return the value that a panel makes room for."""
    return max(map(_reach, panel), default=0.0) or 1.0


def _whisker_end(result: Result, reach: float) -> float:
    """Return where the bar with its whisker ends, which is cut where the panel ends."""
    return max(result.throughput or 0.0, min(result.high or 0.0, reach))


def _reach(result: Result) -> float:
    """Return how high the axis must be for the bar and its whisker; a long one may be cut."""
    throughput = result.throughput or 0.0
    return max(throughput, min(result.high or 0.0, _LOWEST_WHISKER * throughput))


def _best(panel: Sequence[Result], of: Result) -> Result:
    """Return the fastest on as many GPUs."""
    rivals = [result for result in panel if result.num_gpus == of.num_gpus]
    return max(rivals, key=lambda result: result.throughput or 0.0)


def _label(result: Result) -> str:
    """Return the speed-up, or what became of the trial."""
    if result.throughput is None:
        return symbol(result)
    marks = "" if result.is_valid else SUSPECT
    if result.failed:
        marks += PARTLY
    if result.speed_up is None or result.baseline is None:
        return f"{number(result.throughput)}{marks}"
    decimals = 0 if result.speed_up >= 9.95 else 1
    return f"{result.speed_up:.{decimals}f}x{marks}"


def _is_upright(texts: Any, grid: Grid) -> bool:
    return any(width_in(text, FOOTER_PT) + 0.03 > grid.bar_in for text in texts)


def _ticks(axes: Axes, grid: Grid, end: float) -> None:
    """Name the groups below, and numbers at the left."""
    ticks = even_ticks(end)
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FixedFormatter(tick_names(ticks)))
    middles = [grid.left_in(count) + (grid.group_in - grid.gap_in) / 2 for count in grid.gpus]
    axes.xaxis.set_major_locator(FixedLocator(middles))
    axes.xaxis.set_major_formatter(FixedFormatter([str(count) for count in grid.gpus]))
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")

"""Throughput on each number of GPUs as grouped bars with speed-ups, a panel per model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator

from analysis.pivot import Table, varied_tables
from analysis.results import Result
from analysis.titles import FEW_REPEATS, number, scaled, title
from plots import figure as figures
from plots.drawing import NothingToShow, Picture, unique
from plots.figure import FOOTER_PT, HATCHES, WIDTH_IN, Palette
from plots.lines import BARS, MOST_LINES, RUNS, line_name, looks_of
from plots.source import PlotSource
from plots.tables.cells import MEANINGS, PARTLY_FAILED, SUSPECT, SYMBOLS
from scalemark.records.outcomes import Outcome
from scalemark.text.wording import safe_name

ABOUT = "throughput of each strategy or setting as bars, with speed-ups, a panel per model"

MOST_MODELS = 6  # in one picture
_PANEL_IN, _ALONE_IN = 1.6, 2.6
_BAR_IN = 0.13  # of a bar, where the picture may grow
_WIDEST_IN = 11.0
_MOST_LABELS = 60  # in one panel: more could not be read


def draw(source: PlotSource, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per machine and unit, of at most `MOST_MODELS` models."""
    tables = varied_tables(source.results, across="num_gpus")
    able = [table for table in tables if _num_numbers(table) > 0]
    if sum(map(_num_numbers, able)) < 2:
        raise NothingToShow("there is one number alone" if able else "no trial completed")
    grouped: dict[tuple[str, str], list[Table]] = defaultdict(list)
    for table in able:
        grouped[table.environment.key, table.unit].append(table)
    several = len({key for key, _ in grouped}) > 1
    parts = []
    for of in grouped.values():
        name = f"{of[0].environment.host}-{of[0].environment.key}" if several else ""
        for start in range(0, len(of), MOST_MODELS):
            parts.append((safe_name(name), of[start : start + MOST_MODELS]))
    for name, (_, of) in zip(unique([name for name, _ in parts]), parts, strict=True):
        yield _picture(of, name, source, palette)


def _num_numbers(table: Table) -> int:
    return sum(result.throughput is not None for result in table.results)


def _picture(tables: Sequence[Table], name: str, source: PlotSource, palette: Palette) -> Picture:
    panels = [_lines(table) for table in tables]
    names = list(dict.fromkeys(name for panel in panels for name in panel))
    looks = looks_of(names, source)
    names.sort(key=lambda line: looks[line])
    results = [result for panel in panels for of in panel.values() for result in of]
    counts = sorted({result.num_gpus for result in results})
    is_alone = len(tables) == 1
    wanted_in = 2.6 + _BAR_IN * len(counts) * (len(names) + 1)
    figure, grid = figures.panels(
        len(tables),
        _ALONE_IN if is_alone else _PANEL_IN,
        names=names,
        width_in=min(max(WIDTH_IN, wanted_in), _WIDEST_IN),
    )
    headline = scaled(tables[0].unit, tables[0])
    if is_alone and "model" in tables[0].setting:
        headline = f"{tables[0].setting['model']}: {headline}"
    figures.set_title(figure, headline)
    for axes, table, panel in zip(grid, tables, panels, strict=True):
        _draw_panel(axes, panel, names, counts, looks, palette)
        own = {axis: value for axis, value in table.setting.items() if axis != "scaling"}
        if not is_alone:
            figures.small_title(axes, str(own.pop("model", "")))
    devices = tables[0].environment.devices
    grid[-1].set_xlabel(f"number of {devices}; on the bars: {_labels_in_words(results)}")
    handles: dict[str, Artist] = {line: Patch(**_look(palette, looks[line])) for line in names}
    figures.add_legend(figure, handles)
    notes = []
    for table, panel in zip(tables, panels, strict=True):
        if len(panel) < len(table.rows):
            num_out = len(table.rows) - len(panel)
            notes.append(f"not drawn: {num_out} slower of {len(table.rows)} settings")
    return Picture(
        name=name,
        figure=figure,
        setting=_setting(tables),
        results=results,
        marks=[*_marks(results), *dict.fromkeys(notes)],
    )


def _setting(tables: Sequence[Table]) -> str:
    """Return what all panels have in common."""
    common = dict(tables[0].setting)
    for table in tables:
        for axis in list(common):
            if axis in ("model", "scaling") or table.setting.get(axis) != common[axis]:
                del common[axis]
    return title(common)


def _lines(table: Table) -> dict[str, list[Result]]:
    """Return the results by the name of their bars, of many the fastest."""
    lines = {}
    for row in table.rows:
        cells = [table.cells.get((row, column)) for column in table.columns]
        lines[line_name(table, row)] = [cell.result for cell in cells if cell]
    best = sorted(lines, key=lambda name: -max(one.throughput or 0.0 for one in lines[name]))
    return {name: of for name, of in lines.items() if name in best[:MOST_LINES]}


def _draw_panel(
    axes: Axes,
    panel: Mapping[str, Sequence[Result]],
    names: Sequence[str],
    counts: Sequence[int],
    looks: Mapping[str, int],
    palette: Palette,
) -> None:
    width = 0.86 / len(names)
    results = [result for of in panel.values() for result in of]
    is_upright = len(counts) * len(names) > 8
    reach = max(max(one.throughput or 0.0, _spread_end(one)) for one in results) or 1.0
    for name, of in panel.items():
        shift = (names.index(name) - (len(names) - 1) / 2) * width
        for result in of:
            at = counts.index(result.num_gpus) + shift
            if result.throughput is not None:
                look = {"label": f"{name} x {result.num_gpus}", **_look(palette, looks[name])}
                axes.bar([at], [result.throughput], width=0.9 * width, **look)
                _draw_spread(axes, at, result, palette, 1.1 * reach)
            if len(results) <= _MOST_LABELS:
                axes.annotate(
                    _label(result),
                    (at, max(result.throughput or 0.0, min(_spread_end(result), 1.1 * reach))),
                    xytext=(0, 2),
                    textcoords="offset points",
                    rotation=90 if is_upright else 0,
                    ha="center",
                    va="bottom",
                    fontsize=FOOTER_PT - 0.5,
                )
    axes.set_xlim(-0.5, len(counts) - 0.5)
    axes.set_ylim(0, reach * (1.32 if is_upright else 1.14))
    axes.xaxis.set_major_locator(FixedLocator(list(range(len(counts)))))
    axes.xaxis.set_major_formatter(FixedFormatter([str(count) for count in counts]))
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")


def _spread_end(result: Result) -> float:
    """Return how high the spread of a bar reaches; a long interval may be cut."""
    if result.throughput is None or len(result.repeats) < 2:
        return 0.0
    if len(result.repeats) < FEW_REPEATS:
        return max(result.repeats)
    return min(result.high or 0.0, 1.25 * result.throughput)


def _draw_spread(axes: Axes, at: float, result: Result, palette: Palette, top: float) -> None:
    """Draw the runs where they are few, else the interval."""
    if 1 < len(result.repeats) < FEW_REPEATS:
        runs: dict[str, Any] = {
            "linestyle": "none",
            "marker": ".",
            "markersize": 2.5,
            "gid": "runs",
        }
        axes.plot([at] * len(result.repeats), result.repeats, color=palette.ink, **runs)
    elif len(result.repeats) > 1 and result.low is not None and result.high is not None:
        look: dict[str, Any] = {"color": palette.ink, "linewidth": 0.8, "gid": "interval"}
        axes.vlines(at, result.low, min(result.high, top), **look)


def _look(palette: Palette, look: int) -> dict[str, Any]:
    """Return the look of a bar: hatches where colors begin again."""
    hatch = HATCHES[look // len(palette.series) % len(HATCHES)]
    return {"facecolor": palette.color(look), "edgecolor": palette.ground, "lw": 0, "hatch": hatch}


def _label(result: Result) -> str:
    """Return the speed-up, or what became of the trial."""
    if result.throughput is None:
        return SYMBOLS[Outcome(result.outcome)]
    marks = "" if result.is_valid else SUSPECT
    if result.failed:
        marks += PARTLY_FAILED
    if result.speed_up is None:
        return f"{number(result.throughput)}{marks}"
    decimals = 0 if result.speed_up >= 9.95 else 1
    return f"{result.speed_up:.{decimals}f}x{marks}"


def _labels_in_words(results: Sequence[Result]) -> str:
    baselines = [result.baseline for result in results if result.baseline]
    environment = results[0].environment
    if not baselines:
        return "throughput"
    if any(baseline.num_gpus > 1 for baseline in baselines):
        return f"speed-up over the fewest {environment.devices} it ran on"
    return f"speed-up over {environment.counted(1)}"


def _marks(results: Sequence[Result]) -> list[str]:
    marks = []
    nums = [len(result.repeats) for result in results]
    if any(1 < num < FEW_REPEATS for num in nums):
        marks.append(RUNS)
    if any(num >= FEW_REPEATS for num in nums):
        marks.append(BARS)
    if not all(result.is_valid for result in results):
        marks.append(f"{SUSPECT}: in doubt")
    for result in results:
        if result.throughput is None:
            symbol = SYMBOLS[Outcome(result.outcome)]
            marks.append(f"{symbol}: {MEANINGS[symbol]}")
    return list(dict.fromkeys(marks))

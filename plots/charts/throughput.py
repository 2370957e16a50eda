"""Throughput on each number of GPUs as grouped bars with speed-ups, a panel per model."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator

from analysis.pivot import Table, varied_tables
from analysis.results import Result, with_number
from analysis.titles import FEW_REPEATS, number, scaled, title
from plots import drawing
from plots.layout import SUSPECT, SYMBOLS, common_setting, usual
from plots.lines import (
    BARS,
    MOST_LINES,
    RUNS,
    best_of,
    draw_spread,
    failure_marks,
    fastest,
    line_name,
    looks_of,
    of_row,
    throughput_point,
    top_of,
    write_above,
)
from plots.source import NUM_COLORS, PlotSource
from scalemark.records.measurement import Outcome
from scalemark.text.wording import safe_name

ABOUT = "throughput of each strategy or setting as bars, with speed-ups, a panel per model"

MOST_MODELS = 6  # in one picture
_PANEL_IN, _ALONE_IN = 1.6, 2.6
_BAR_IN = 0.13  # of a bar, where the picture may grow
_WIDEST_IN = 11.0
_MOST_LABELS = 60  # in one panel: more could not be read


def draw(source: PlotSource) -> Iterator[drawing.Picture]:
    """Yield a picture per machine and unit, of at most `MOST_MODELS` models."""
    grouped: dict[tuple[str, str], list[Table]] = defaultdict(list)
    num_numbers = 0
    for table in varied_tables(source.results, across="num_gpus"):
        num = len(with_number(table.results))
        num_numbers += num
        if num:
            grouped[table.environment.key, table.unit].append(table)
    if num_numbers < 2:
        raise drawing.NothingToShow(
            "there is one number alone" if grouped else "no trial completed"
        )
    has_machines = len({key for key, _ in grouped}) > 1
    for tables in grouped.values():
        environment, name = tables[0].environment, ""
        if has_machines:
            name = safe_name(f"{environment.host}-{environment.key}")
        for start in range(0, len(tables), MOST_MODELS):
            yield _picture(tables[start : start + MOST_MODELS], name, source)


def _picture(tables: Sequence[Table], name: str, source: PlotSource) -> drawing.Picture:
    panels = list(map(_lines, tables))
    bars: dict[str, None] = {}
    results: list[Result] = []
    notes: dict[str, None] = {}
    for table, panel in zip(tables, panels, strict=True):
        bars.update(dict.fromkeys(panel))
        results += chain.from_iterable(panel.values())
        num_out = len(table.rows) - len(panel)
        if num_out:
            notes[f"not drawn: {num_out} slower of {len(table.rows)} settings"] = None
    looks = looks_of(list(bars), source)
    names = sorted(bars, key=lambda line: looks[line])
    counts = sorted({result.num_gpus for result in results})
    is_alone = len(tables) == 1
    wanted_in = 2.6 + _BAR_IN * len(counts) * (len(names) + 1)
    height_in, headline = _PANEL_IN, scaled(tables[0].unit, tables[0])
    if is_alone:
        height_in = _ALONE_IN
        if "model" in tables[0].setting:
            headline = f"{tables[0].setting['model']}: {headline}"
    width_in = min(max(drawing.WIDTH_IN, wanted_in), _WIDEST_IN)
    figure, grid = drawing.panels(len(tables), height_in, names=names, width_in=width_in)
    drawing.set_title(figure, headline)
    for axes, table, panel in zip(grid, tables, panels, strict=True):
        _draw_panel(axes, panel, names, counts, looks)
        if not is_alone:
            drawing.small_title(axes, str(table.setting.get("model", "")))
    devices = tables[0].environment.devices
    grid[-1].set_xlabel(f"number of {devices}; on the bars: {_labels_in_words(results)}")
    handles: dict[str, Artist] = {line: Patch(**_look(looks[line])) for line in names}
    drawing.add_legend(figure, handles)
    common = common_setting(tables)
    common.pop("scaling", None)  # the headline says it
    return drawing.Picture(
        name=name,
        figure=figure,
        setting=title(common),
        results=results,
        marks=[*_marks(results), *notes],
    )


def _lines(table: Table) -> dict[str, list[Result]]:
    """Return the results by the name of their bars, of many the fastest."""
    lines = {line_name(table, row): of_row(table, row) for row in table.rows}
    return best_of(lines, fastest, MOST_LINES)


def _draw_panel(
    axes: Axes,
    panel: Mapping[str, Sequence[Result]],
    names: Sequence[str],
    counts: Sequence[int],
    looks: Mapping[str, int],
) -> None:
    width = 0.86 / len(names)
    results = list(chain.from_iterable(panel.values()))
    has_speed_up = "speed-up" in usual(results)
    rotation, room = 0, 1.14
    if len(counts) * len(names) > 8:
        rotation, room = 90, 1.32
    reach = max(top_of(throughput_point(result)) for result in results) or 1.0
    for name, of_name in panel.items():
        shift = (names.index(name) - (len(names) - 1) / 2) * width
        for result in of_name:
            at = counts.index(result.num_gpus) + shift
            point = throughput_point(result)
            if point is not None:
                look = {"label": f"{name} x {result.num_gpus}", **_look(looks[name])}
                axes.bar([at], [point.value], width=0.9 * width, **look)
                high = min(point.high or 0.0, 1.1 * reach)
                draw_spread(axes, at, point.repeats, point.low, high, color=drawing.INK)
            if len(results) <= _MOST_LABELS:
                place, size_pt = (at, top_of(point)), drawing.FOOTER_PT - 0.5
                label = _label(result, has_speed_up=has_speed_up)
                write_above(axes, place, label, size_pt, 2, rotation=rotation)
    axes.set_xlim(-0.5, len(counts) - 0.5)
    axes.set_ylim(0, reach * room)
    axes.xaxis.set_major_locator(FixedLocator(list(range(len(counts)))))
    axes.xaxis.set_major_formatter(FixedFormatter(list(map(str, counts))))
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")


def _look(look: int) -> dict[str, Any]:
    """Return the look of a bar: hatches where colors begin again."""
    hatch = drawing.HATCHES[look // NUM_COLORS % len(drawing.HATCHES)]
    color = drawing.SERIES[look % NUM_COLORS]
    return {"facecolor": color, "edgecolor": drawing.GROUND, "lw": 0, "hatch": hatch}


def _label(result: Result, *, has_speed_up: bool) -> str:
    """Return the speed-up, else the throughput, or what became of the trial."""
    if result.throughput is None:
        return SYMBOLS[Outcome(result.outcome)]
    marks = "" if result.is_valid else SUSPECT
    if result.speed_up is None or not has_speed_up:
        return f"{number(result.throughput)}{marks}"
    if result.speed_up_doubts:
        marks = SUSPECT
    decimals = 0 if result.speed_up >= 9.95 else 1
    return f"{result.speed_up:.{decimals}f}x{marks}"


def _labels_in_words(results: Sequence[Result]) -> str:
    baselines = [result.baseline for result in results if result.baseline]
    environment = results[0].environment
    if not baselines or "speed-up" not in usual(results):
        return "throughput"
    if any(baseline.num_gpus > 1 for baseline in baselines):
        return f"speed-up over the fewest {environment.devices} it ran on"
    return f"speed-up over {environment.counted(1)}"


def _marks(results: Sequence[Result]) -> list[str]:
    marks = []
    nums = {len(result.repeats) for result in results}
    if nums.intersection(range(2, FEW_REPEATS)):
        marks.append(RUNS)
    if max(nums) >= FEW_REPEATS:
        marks.append(BARS)
    if any(result.doubts or result.speed_up_doubts for result in results):
        marks.append(f"{SUSPECT}: in doubt")
    return [*marks, *failure_marks(results)]

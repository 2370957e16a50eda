"""Every strategy on every model: images/s, and shaded by how near each comes to the model's best; a
panel per GPU count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.pivot import Cell, Label, Rank, Table
from analysis.results import Result
from analysis.text.titles import in_doubt, row_title, scaling, table_notes
from plots.pictures.by_model import Models, by_model
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.lettering import height_in, parts, width_in, wrapped
from plots.pictures.points import PARTLY, partly_failed, symbol
from plots.pictures.sheet import MARGIN_IN, Sheet, bare
from plots.pictures.theme import FOOTER_PT, SMALL_PT, WIDTH_IN, Palette
from plots.source import Source
from plots.tables.layout import NOT_RUN, SUSPECT

ABOUT = "every strategy on every model, a panel per GPU count, failures shown"

_NAMES_IN = 1.25  # for the names of strategies
_CELL_IN, _WIDEST_IN = 0.5, 1.2  # a cell at least and at most
_ROW_IN, _PAD_IN = 0.3, 0.03


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per setting and machine where two strategies or models can be compared."""
    found = [
        of
        for of in by_model(source.results)
        if any(result.throughput is not None for result in of.table.results)
    ]
    if not found:
        raise NothingToShow("no trial completed")
    found = [of for of in found if len(of.strategies) > 1]
    if not found:
        raise NothingToShow("there is one strategy alone")
    for models, name in zip(found, file_names([of.table for of in found]), strict=True):
        yield _picture(models, name, palette)


def _picture(models: Models, name: str, palette: Palette) -> Picture:
    is_one = len(models.models) == 1
    labels = {model: models.label(model, _WIDEST_IN) for model in models.models}
    words_in = [width_in(word, SMALL_PT) for label in labels.values() for word in parts(label)]
    num_across = len(models.gpus) if is_one else len(models.models)
    room_in = (WIDTH_IN - _NAMES_IN - 2 * MARGIN_IN) / num_across
    cell_in = min(max(_CELL_IN, room_in, 0 if is_one else max(words_in) + 2 * _PAD_IN), _WIDEST_IN)
    sheet = Sheet(palette, max(WIDTH_IN, _NAMES_IN + cell_in * num_across + 2 * MARGIN_IN))
    devices = models.table.place.devices
    what = f"images/s of each strategy ({scaling(models.table)})"
    if is_one:
        (model,) = models.models
        sheet.heading(f"{model}: {what}", models.setting())
        sheet.text(f"number of {devices}", bold=True)
        _panel(sheet, models.of(model), {(count,): str(count) for count in models.gpus}, cell_in)
    else:
        sheet.heading(what, models.setting())
        for count in models.gpus:
            sheet.text(f"on {models.table.counted(count)}", bold=True)
            of_models = {
                (model,): models.label(model, cell_in - 2 * _PAD_IN) for model in models.models
            }
            _panel(sheet, models.on(count), of_models, cell_in)
    sheet.text("Bold: the best of its column. Shade and percent: part of that best.")
    if not all(result.is_valid for result in models.table.results):
        sheet.text(f"{SUSPECT} {in_doubt(models.table.place)}")
    return Picture(
        name=name,
        figure=sheet.finished(),
        about=[*table_notes(models.table), *partly_failed(models.table.results, PARTLY)],
    )


def _panel(sheet: Sheet, table: Table, labels: Mapping[Label, str], cell_in: float) -> None:
    """The columns with these labels; those that the table lacks were not run."""
    names = [row_title(table, row) for row in table.rows]
    sheet.gap(0.04 + max(height_in(label, SMALL_PT) for label in labels.values()))
    right_in = sheet.width_in - _NAMES_IN - MARGIN_IN - cell_in * len(labels)
    lines = [wrapped(name, FOOTER_PT, _NAMES_IN - 0.1) for name in names]
    row_in = max(_ROW_IN, *(height_in(line, FOOTER_PT) + _PAD_IN for line in lines))
    axes = sheet.axes(row_in * len(names), _NAMES_IN + MARGIN_IN, right_in)
    bare(axes, len(labels), len(names))
    axes.xaxis.tick_top()
    axes.set_xticks([index + 0.5 for index in range(len(labels))], list(labels.values()))
    axes.set_yticks([index + 0.5 for index in range(len(names))], lines, fontsize=FOOTER_PT)
    for across, column in enumerate(labels):
        best = _best(
            [table.cells[row, column].result for row in table.rows if (row, column) in table.cells]
        )
        for down, row in enumerate(table.rows):
            _cell(axes, (across, down), table.cells.get((row, column)), best, sheet.palette)
    sheet.gap(0.14)


def _best(results: Sequence[Result]) -> float:
    """Images/s; 0 where there is none."""
    able = [of.throughput for of in results]
    return max((value for value in able if value is not None), default=0.0)


def _cell(
    axes: Axes, corner: tuple[float, float], cell: Cell | None, best: float, palette: Palette
) -> None:
    center = corner[0] + 0.5, corner[1] + 0.5
    throughput = cell.result.throughput if cell is not None else None
    if cell is None or throughput is None or best == 0:
        failed = cell is not None
        axes.add_patch(
            Rectangle(
                corner,
                1,
                1,
                facecolor=palette.ground,
                edgecolor=palette.faint,
                lw=0.5,
                hatch="////" if failed else None,
            )
        )
        told = symbol(cell.result) if cell is not None else NOT_RUN
        box = {"facecolor": palette.ground, "edgecolor": "none", "pad": 1.5}
        axes.text(
            *center,
            told,
            ha="center",
            va="center",
            fontsize=FOOTER_PT,
            bbox=box if failed else None,
        )
        return
    share = throughput / best
    shade = palette.shade(share)
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=shade, edgecolor=palette.ground, lw=1))
    mark = f"{'' if cell.result.is_valid else SUSPECT}{PARTLY if cell.result.failed else ''}"
    weight = "bold" if cell.rank is Rank.BEST else "normal"
    told = f"{short_number(throughput)}{mark}\n{100 * share:.0f} %"
    axes.text(
        *center,
        told,
        ha="center",
        va="center",
        fontsize=FOOTER_PT,
        color=palette.on(shade),
        fontweight=weight,
        linespacing=1.1,
    )


def short_number(value: float) -> str:
    """At most five characters, as `1131`, `12.3k`, `0.52`."""
    for limit, divisor, unit in ((1e4, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M")):
        if value < limit:
            return f"{value / divisor:.3g}{unit}" if value / divisor < 1000 else f"{value:.0f}"
    return f"{value:.0e}"

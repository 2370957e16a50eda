"""Every strategy on every model, shaded by its share of the model's best; a panel per GPU count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.pivot import Cell, Label, Rank, Table
from analysis.text.titles import in_doubt, row_title, scaled, table_notes
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
    """Yield a picture per setting and machine where two strategies can be compared."""
    found = []
    for models in by_model(source.results):
        if any(result.throughput is not None for result in models.table.results):
            found.append(models)
    if not found:
        raise NothingToShow("no trial completed")
    found = [models for models in found if len(models.strategies) > 1]
    if not found:
        raise NothingToShow("there is one strategy alone")
    for models, name in zip(found, file_names([one.table for one in found]), strict=True):
        yield _picture(models, name, palette)


def _picture(models: Models, name: str, palette: Palette) -> Picture:
    is_one = len(models.models) == 1
    num_across = len(models.gpus) if is_one else len(models.models)
    least_in = _CELL_IN
    if not is_one:
        labels = [models.label(model, _WIDEST_IN) for model in models.models]
        widest_in = max(width_in(word, SMALL_PT) for label in labels for word in parts(label))
        least_in = max(_CELL_IN, widest_in + 2 * _PAD_IN)
    room_in = (WIDTH_IN - _NAMES_IN - 2 * MARGIN_IN) / num_across
    cell_in = min(max(least_in, room_in), _WIDEST_IN)
    sheet = Sheet(palette, max(WIDTH_IN, _NAMES_IN + cell_in * num_across + 2 * MARGIN_IN))
    what = scaled(f"{models.table.unit} of each strategy", models.table)
    if is_one:
        (model,) = models.models
        sheet.heading(f"{model}: {what}", models.setting())
        sheet.text(f"number of {models.table.environment.devices}", bold=True)
        _panel(sheet, models.of(model), {(count,): str(count) for count in models.gpus}, cell_in)
    else:
        sheet.heading(what, models.setting())
        across = {(model,): models.label(model, cell_in - 2 * _PAD_IN) for model in models.models}
        for count in models.gpus:
            sheet.text(f"on {models.table.counted(count)}", bold=True)
            _panel(sheet, models.on(count), across, cell_in)
    sheet.text("Bold: the best of its column. Shade and percent: part of that best.")
    if not all(result.is_valid for result in models.table.results):
        sheet.text(f"{SUSPECT} {in_doubt(models.table.environment)}")
    about = table_notes(models.table) + partly_failed(models.table.results, PARTLY)
    return Picture(name=name, figure=sheet.finished(), about=about)


def _panel(sheet: Sheet, table: Table, labels: Mapping[Label, str], cell_in: float) -> None:
    """Draw the columns with these labels; those that the table lacks were not run."""
    sheet.gap(0.04 + max(height_in(label, SMALL_PT) for label in labels.values()))
    right_in = sheet.width_in - _NAMES_IN - MARGIN_IN - cell_in * len(labels)
    names = [wrapped(row_title(table, row), FOOTER_PT, _NAMES_IN - 0.1) for row in table.rows]
    row_in = max(_ROW_IN, *(height_in(name, FOOTER_PT) + _PAD_IN for name in names))
    axes = sheet.axes(row_in * len(names), _NAMES_IN + MARGIN_IN, right_in)
    bare(axes, len(labels), len(names))
    axes.xaxis.tick_top()
    axes.set_xticks([index + 0.5 for index in range(len(labels))], list(labels.values()))
    axes.set_yticks([index + 0.5 for index in range(len(names))], names, fontsize=FOOTER_PT)
    for across, column in enumerate(labels):
        cells = [table.cells.get((row, column)) for row in table.rows]
        best = max((_throughput(cell) for cell in cells), default=0.0)
        for down, cell in enumerate(cells):
            if cell is not None and _throughput(cell):
                _cell(axes, (across, down), cell, best, sheet.palette)
            else:
                _empty_cell(axes, (across, down), cell, sheet.palette)
    sheet.gap(0.14)


def _throughput(cell: Cell | None) -> float:
    """Return 0 where there is none."""
    return (cell.result.throughput or 0.0) if cell else 0.0


_CENTERED: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": FOOTER_PT}


def _empty_cell(
    axes: Axes, corner: tuple[float, float], cell: Cell | None, palette: Palette
) -> None:
    look: dict[str, Any] = {"facecolor": palette.ground, "edgecolor": palette.faint, "lw": 0.5}
    text, box = NOT_RUN, None
    if cell is not None:
        text = symbol(cell.result)
        look["hatch"] = "////"
        box = {"facecolor": palette.ground, "edgecolor": "none", "pad": 1.5}
    axes.add_patch(Rectangle(corner, 1, 1, **look))
    axes.text(corner[0] + 0.5, corner[1] + 0.5, text, bbox=box, **_CENTERED)


def _cell(
    axes: Axes, corner: tuple[float, float], cell: Cell, best: float, palette: Palette
) -> None:
    share = _throughput(cell) / best
    shade = palette.shade(share)
    axes.add_patch(Rectangle(corner, 1, 1, facecolor=shade, edgecolor=palette.ground, lw=1))
    mark = "" if cell.result.is_valid else SUSPECT
    if cell.result.failed:
        mark += PARTLY
    look: dict[str, Any] = {"color": palette.on(shade), "linespacing": 1.1, **_CENTERED}
    if cell.rank is Rank.BEST:
        look["fontweight"] = "bold"
    text = f"{short_number(_throughput(cell))}{mark}\n{100 * share:.0f} %"
    axes.text(corner[0] + 0.5, corner[1] + 0.5, text, **look)


def short_number(value: float) -> str:
    """Return at most five characters, as `1131`, `12.3k`, `0.52`."""
    for limit, divisor, unit in ((1e4, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M")):
        if value < limit:
            return f"{value / divisor:.3g}{unit}" if value / divisor < 1000 else f"{value:.0f}"
    return f"{value:.0e}"

"""Throughput against GPUs: a line per strategy, its interval, and the ideal line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analysis.pivot import Table, lines, pivot
from analysis.text.titles import headings, notes, row_title
from plots.pictures.curves import Curve, Ideal, Values, draw_curves
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.points import failures, partly_failed, points
from plots.pictures.sheet import Sheet
from plots.pictures.theme import Palette
from plots.source import Source

ABOUT = "throughput against GPUs, a line per strategy and number of hosts, with the ideal line"


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model, setting and machine that has a number."""
    tables = pivot(source.results, lines(source.results))
    tables = [
        table for table in tables if any(result.throughput is not None for result in table.results)
    ]
    if not tables:
        raise NothingToShow("no trial completed")
    for table, name in zip(tables, file_names(tables), strict=True):
        yield _picture(table, name, source, palette)


class Start(NamedTuple):
    """The beginning of the ideal line."""

    num_gpus: int
    throughput: float
    strategy: str
    width: str


def _picture(table: Table, name: str, source: Source, palette: Palette) -> Picture:
    curves = []
    for row in table.rows:
        wheres = [(row, column) for column in table.columns]
        results = [table.cells[where].result for where in wheres if where in table.cells]
        curve = Curve(
            name=row_title(table, row),
            points=points(results),
            failures=failures(results),
            look=source.looks[results[0].line],
        )
        curves.append(curve)
    sheet = Sheet(palette)
    sheet.heading(*headings(table, table.unit))
    start = _start(table)
    x_label = f"number of {table.environment.devices}"
    beyond = draw_curves(sheet, curves, _ideal(table, start), Values.AMOUNT, x_label)
    times = "N"
    if start.num_gpus > 1:
        times = f"N/{start.num_gpus}"
        sheet.text(
            f"No number on {table.environment.counted(1)}: the ideal line starts at the best on "
            f"{start.width} instead."
        )
    about = [*notes(table), *beyond, *partly_failed(table.results, "ringed")]
    about.append(f"ideal: {start.strategy} on {start.width}, the best there, times {times}")
    return Picture(name=name, figure=sheet.finished(), about=about)


def _start(table: Table) -> Start:
    """Return the best on the fewest GPUs, of all that is shown and of the baselines of that, which
    a filter may have left out.
    """
    found = []
    for result in table.results:
        for one in (result, result.baseline):
            if one is not None and one.throughput is not None:
                found.append(Start(one.num_gpus, one.throughput, one.strategy, one.width))
    return min(found, key=lambda start: (start.num_gpus, -start.throughput))


def _ideal(table: Table, start: Start) -> Ideal | None:
    per_gpu = start.throughput / start.num_gpus
    gpus = [num_gpus for (num_gpus,) in table.columns if num_gpus >= start.num_gpus]
    if len(gpus) < 2:
        return None
    return Ideal(name="ideal", values=tuple((num_gpus, per_gpu * num_gpus) for num_gpus in gpus))

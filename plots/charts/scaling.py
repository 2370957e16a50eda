"""Throughput against GPUs: a line per strategy, its interval, and the ideal line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analysis.pivot import pivot
from analysis.tables.labels import lines, with_variables
from analysis.tables.table import Table
from analysis.text.titles import headings
from plots.pictures.axes import Values
from plots.pictures.curves import Curve, Ideal, draw_curves
from plots.pictures.drawing import NO_LINE, NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.footer import doubts
from plots.pictures.points import failures, partly_failed, points
from plots.pictures.sheet import Sheet
from plots.pictures.theme import WIDE_IN, Palette
from plots.source import Source

ABOUT = "throughput against GPUs, a line per strategy and number of hosts, and bars on the most"


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model, setting and machine that has a line."""
    results = source.results
    tables = pivot(results, with_variables(lines(results), results))
    able = [table for table in tables if _has_line(table)]
    if not able:
        raise NothingToShow(NO_LINE)
    for table, name in zip(able, file_names(able), strict=True):
        yield _picture(table, name, source, palette)
    if len(able) < len(tables):
        raise NothingToShow(NO_LINE, len(tables) - len(able), len(tables))


def _has_line(table: Table) -> bool:
    """Say whether any strategy has two points; `throughput` has those of single ones."""
    rows = [row for (row, _), cell in table.cells.items() if cell.result.throughput is not None]
    return len(rows) > len(set(rows))


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
            name=results[0].line,
            points=points(results),
            failures=failures(results),
            look=source.looks[results[0].line],
        )
        curves.append(curve)
    sheet = Sheet(palette, WIDE_IN)
    sheet.heading(*headings(table, table.unit))
    start = _start(table)
    x_label = f"number of {table.environment.devices}"
    marks = draw_curves(
        sheet,
        curves,
        _ideal(table, start),
        Values.AMOUNT,
        x_label,
        is_log=source.is_log,
        last=f"on {table.counted(max(result.num_gpus for result in table.results))}",
    )
    times = "N"
    if start.num_gpus > 1:
        times = f"N/{start.num_gpus}"
        sheet.text(
            f"No number on {table.environment.counted(1)}: the ideal line starts at the best on "
            f"{start.width} instead."
        )
    about = partly_failed(table.results)
    about.append(f"ideal: {start.strategy} on {start.width}, the best there, times {times}")
    return Picture(
        name=name,
        figure=sheet.finished(),
        results=table.results,
        marks=[*marks, *doubts(table.results)],
        about=about,
    )


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

"""Images/s against GPUs: a line per strategy, its interval, and the ideal line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from analysis.pivot import Table, lines, pivot
from analysis.text.titles import headings, notes, row_title
from plots.looks import Looks
from plots.pictures.curves import Curve, Ideal, Values, draw_curves
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.points import failures, partly_failed, points
from plots.pictures.sheet import Sheet
from plots.pictures.theme import Palette
from plots.source import Source

ABOUT = "images/s against GPUs, a line per strategy and number of hosts, with the ideal line"


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per model, setting and machine that has a number."""
    tables = [
        table
        for table in pivot(source.results, lines(source.results))
        if any(of.throughput is not None for of in table.results)
    ]
    if not tables:
        raise NothingToShow("no trial completed")
    for table, name in zip(tables, file_names(tables), strict=True):
        yield _picture(table, name, source.looks, palette)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Of the ideal line."""

    strategy: str
    num_gpus: int
    width: str
    throughput: float


def _picture(table: Table, name: str, looks: Looks, palette: Palette) -> Picture:
    sheet = Sheet(palette)
    sheet.heading(*headings(table, table.unit))
    start = _start(table)
    beyond = draw_curves(
        sheet,
        _curves(table, looks),
        _ideal(table, start),
        Values.AMOUNT,
        f"number of {table.place.devices}",
    )
    if start.num_gpus > 1:
        sheet.text(
            f"No number on {table.place.counted(1)}: the ideal line starts at the best on "
            f"{start.width} instead."
        )
    about = [*notes(table), *beyond, *partly_failed(table.results, "ringed"), _ideals_name(start)]
    return Picture(name=name, figure=sheet.finished(), about=about)


def _curves(table: Table, looks: Looks) -> list[Curve]:
    found = []
    for row in table.rows:
        results = [
            table.cells[row, column].result
            for column in table.columns
            if (row, column) in table.cells
        ]
        found.append(
            Curve(
                name=row_title(table, row),
                points=points(results),
                failures=failures(results),
                look=looks[results[0].line],
            )
        )
    return found


def _start(table: Table) -> Start:
    """The best on the fewest GPUs, of all that is shown and of the baselines of that, which a
    filter may have left out.
    """
    able = [
        Start(
            strategy=of.strategy,
            num_gpus=of.num_gpus,
            width=of.width,
            throughput=of.throughput,
        )
        for result in table.results
        for of in (result, result.baseline)
        if of is not None and of.throughput is not None
    ]
    return min(able, key=lambda of: (of.num_gpus, -of.throughput))


def _ideal(table: Table, start: Start) -> Ideal | None:
    per_gpu = start.throughput / start.num_gpus
    gpus = [num_gpus for (num_gpus,) in table.columns if num_gpus >= start.num_gpus]
    if len(gpus) < 2:
        return None
    return Ideal(name="ideal", values=tuple((num_gpus, per_gpu * num_gpus) for num_gpus in gpus))


def _ideals_name(start: Start) -> str:
    times = "N" if start.num_gpus == 1 else f"N/{start.num_gpus}"
    return f"ideal: {start.strategy} on {start.width}, the best there, times {times}"

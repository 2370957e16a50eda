"""Images/s and peak memory against the batch size, a line per strategy, and which sizes did not
fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from analysis.pivot import Label, Table, pivot
from analysis.results import Origin, Result
from analysis.text.titles import headings, notes, row_title
from plots.looks import Looks
from plots.pictures.curves import Curve, Values, draw_curves
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.points import Point, failures, partly_failed, points
from plots.pictures.sheet import Sheet
from plots.pictures.theme import Palette
from plots.pictures.typical import completed
from plots.source import Source

ABOUT = "images/s and peak memory against the batch size, with those that did not fit"

_GIB = 2.0**30


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per model, setting, machine and number of GPUs that ran with two batch sizes or
    more.
    """
    tables = [
        table
        for table in pivot(source.results, ("strategy",), ("batch_size",))
        if _has_sizes(table)
    ]
    if not tables:
        raise NothingToShow("no model ran with two batch sizes on as many devices")
    for table, name in zip(tables, file_names(tables), strict=True):
        yield _picture(source, table, name, palette)


def _has_sizes(table: Table) -> bool:
    sizes = {result.axes["batch_size"] for result in table.results}
    return len(sizes - {None}) > 1 and any(
        result.throughput is not None for result in table.results
    )


def _picture(source: Source, table: Table, name: str, palette: Palette) -> Picture:
    num_gpus = table.results[0].num_gpus
    told = replace(
        table,
        setting={
            axis: value
            for axis, value in table.setting.items()
            if axis not in ("num_gpus", "hosts")
        },
    )
    x_label = "batch size: images per device and step"
    speeds, (where, peaks) = (
        [_speed(table, row, source.looks) for row in table.rows],
        _peaks(source, table),
    )
    sheet = Sheet(palette)
    sheet.heading(*headings(told, f"batch sizes on {table.counted(num_gpus)}"))
    sheet.text("images/s", color=palette.faint)
    beyond = draw_curves(sheet, speeds, None, Values.AMOUNT, x_label, with_legend=not peaks)
    if peaks:
        sheet.text(f"peak {where} memory, GiB", color=palette.faint)
        draw_curves(
            sheet,
            [_memory(table, row, peaks, source.looks) for row in table.rows],
            None,
            Values.AMOUNT,
            x_label,
        )
    about = [*notes(table), *beyond, *partly_failed(table.results, "ringed")]
    about += [f"peak {where} memory: of the repeats the largest"] if peaks else []
    return Picture(name=name, figure=sheet.finished(), about=about)


def _of_row(table: Table, row: Label) -> list[Result]:
    """By batch size, where it is known."""
    results = [cell.result for (of, _), cell in table.cells.items() if of == row]
    return sorted(
        (of for of in results if of.axes["batch_size"]), key=lambda of: int(of.axes["batch_size"])
    )


def _speed(table: Table, row: Label, looks: Looks) -> Curve:
    results = _of_row(table, row)
    along = "batch_size"
    return Curve(
        name=row_title(table, row),
        points=points(results, along),
        failures=failures(results, along),
        look=looks[results[0].line],
    )


def _memory(table: Table, row: Label, peaks: Mapping[str, float], looks: Looks) -> Curve:
    results = _of_row(table, row)
    return Curve(
        name=row_title(table, row),
        points=tuple(
            Point(
                at=of.axes["batch_size"],
                value=peaks[of.trial_id],
                low=None,
                high=None,
                is_valid=of.is_valid,
                is_whole=not of.failed,
            )
            for of in results
            if of.trial_id in peaks
        ),
        failures=(),
        look=looks[results[0].line],
    )


def _peaks(source: Source, table: Table) -> tuple[str, dict[str, float]]:
    """Device memory where any device told it, else that of the host: GiB by trial, the largest of
    its processes.
    """
    if table.place.origin is Origin.PUBLISHED:
        return "host", {}
    for where in ("device", "host"):
        told = {
            of.trial_id: [row[f"peak_{where}_memory_bytes"] for row in completed(source, of)]
            for of in table.results
        }
        peaks = {trial_id: max(filter(None, of)) / _GIB for trial_id, of in told.items() if any(of)}
        if peaks:
            return where, peaks
    return "host", {}

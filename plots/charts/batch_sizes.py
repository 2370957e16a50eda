"""Throughput and peak memory against the batch size, and which sizes did not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from analysis.pivot import pivot
from analysis.results import Result
from analysis.tables.labels import Label, with_variables
from analysis.tables.table import Table
from analysis.text.titles import headings
from plots.pictures.axes import Values
from plots.pictures.curves import Curve, draw_curves
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.footer import doubts
from plots.pictures.points import Point, failures, partly_failed, points
from plots.pictures.sheet import Sheet
from plots.pictures.theme import WIDE_IN, Palette
from plots.pictures.typical import completed
from plots.source import Source

ABOUT = "throughput and peak memory against the batch size, with those that did not fit"

_GIB = 2.0**30


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model, setting, machine and number of GPUs that ran with two batch sizes
    or more.
    """
    tables = pivot(source.results, with_variables(("strategy",), source.results), ("batch_size",))
    tables = [table for table in tables if _has_sizes(table)]
    if not tables:
        raise NothingToShow("no model ran with two batch sizes on as many devices")
    for table, name in zip(tables, file_names(tables), strict=True):
        yield _picture(source, table, name, palette)


def _has_sizes(table: Table) -> bool:
    """Say whether a strategy ran with two sizes, and whether any has a number."""
    is_known = any(result.throughput is not None for result in table.results)
    return is_known and any(len(_of_row(table, row)) > 1 for row in table.rows)


def _picture(source: Source, table: Table, name: str, palette: Palette) -> Picture:
    num_gpus = table.results[0].num_gpus
    setting = dict(table.setting)
    for axis in ("num_gpus", "hosts"):  # the headline has them
        setting.pop(axis, None)
    headings_of = headings(
        replace(table, setting=setting), f"batch sizes on {table.counted(num_gpus)}"
    )
    x_label = f"batch size: {table.results[0].item} per device and step"
    if table.results[0].is_of_program:
        x_label = "batch_size"  # of one device or of all: the program knows
    where, peaks = _peaks(source, table)
    speeds, memory = [], []
    for row in table.rows:
        results = _of_row(table, row)
        curve = Curve(
            name=results[0].way,
            points=points(results, "batch_size"),
            failures=failures(results, "batch_size"),
            look=source.looks[results[0].line],
        )
        speeds.append(curve)
        memory.append(replace(curve, points=_memory(results, peaks), failures=()))
    sheet = Sheet(palette, WIDE_IN)
    sheet.heading(*headings_of)
    sheet.text(table.unit, color=palette.faint)
    marks = draw_curves(sheet, speeds, None, Values.AMOUNT, x_label, is_log=source.is_log)
    about = partly_failed(table.results)
    if peaks:
        sheet.text(f"peak {where} memory, GiB", color=palette.faint)
        draw_curves(sheet, memory, None, Values.AMOUNT, x_label, is_log=source.is_log)
        about.append(f"peak {where} memory: of the repeats the largest")
    return Picture(
        name=name,
        figure=sheet.finished(),
        results=table.results,
        marks=[*marks, *doubts(table.results)],
        about=about,
    )


def _of_row(table: Table, row: Label) -> list[Result]:
    """Return the results of a row by batch size, where it is known."""
    results = [cell.result for (label, _), cell in table.cells.items() if label == row]
    known = [result for result in results if result.axes["batch_size"]]
    return sorted(known, key=lambda result: int(result.axes["batch_size"]))


def _memory(results: Sequence[Result], peaks: Mapping[str, float]) -> tuple[Point, ...]:
    return tuple(
        Point(
            at=result.axes["batch_size"],
            value=peaks[result.trial_id],
            is_valid=result.is_valid,
            is_whole=not result.failed,
        )
        for result in results
        if result.trial_id in peaks
    )


def _peaks(source: Source, table: Table) -> tuple[str, dict[str, float]]:
    """Return device memory where any device reported it, else that of the host: GiB by trial, the
    largest of its processes.
    """
    for where in ("device", "host"):
        peaks = {}
        for result in table.results:
            found = [row[f"peak_{where}_memory_bytes"] for row in completed(source, result)]
            known = [num_bytes for num_bytes in found if num_bytes]
            if known:
                peaks[result.trial_id] = max(known) / _GIB
        if peaks:
            return where, peaks
    return "host", {}

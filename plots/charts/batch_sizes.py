"""Throughput against the batch size, and which sizes did not fit."""

from collections.abc import Iterator

from analysis.pivot import Table
from plots.drawing import NothingToShow, Picture
from plots.lines import LineChart, draw_lines, throughput_point
from plots.source import PlotSource

ABOUT = "throughput against the batch size, with those that did not fit"


def draw(source: PlotSource) -> Iterator[Picture]:
    """Yield a picture per model and machine that ran with two batch sizes or more."""
    if any(not result.axes.get("batch_size") for result in source.results):
        raise NothingToShow("some trials do not say their batch size")
    chart = LineChart(
        along="batch_size",
        title=lambda table: f"{table.unit} by batch size",
        x_label=x_label,
        point=throughput_point,
        lack="no strategy ran with two batch sizes",
    )
    return draw_lines(source, chart)


def x_label(table: Table) -> str:
    first = table.results[0]
    if first.is_of_program:
        return "batch_size"  # of one device or of all: the program knows
    return f"batch size: {first.item} per device and step"

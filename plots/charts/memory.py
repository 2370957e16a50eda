"""Peak memory against the batch size, or against GPUs where all have one batch size."""

from collections.abc import Iterator
from dataclasses import replace

from analysis.results import Result
from plots.charts import batch_sizes
from plots.drawing import Picture
from plots.lines import LineChart, Point, draw_lines
from plots.source import PlotSource
from scalemark.records.machine import DeviceKind

ABOUT = "peak memory against the batch size or GPUs, with what did not fit"

_GIB = 2.0**30


def draw(source: PlotSource) -> Iterator[Picture]:
    """Yield a picture per model and machine whose memory was seen."""
    sizes = {result.axes.get("batch_size") for result in source.results}
    kinds = {result.environment.device_kind for result in source.results}
    where = "of the process"
    if kinds == {DeviceKind.GPU}:
        where = "of the fullest GPU"
    chart = LineChart(
        along="num_gpus",
        title=lambda table: f"peak memory {where}, GiB",
        point=_point,
        lack="no peak memory is stored",
        least_points=1,
    )
    if len(sizes) > 1 and all(sizes):
        chart = replace(chart, along="batch_size", x_label=batch_sizes.x_label)
    return draw_lines(source, chart)


def _point(result: Result) -> Point | None:
    num_bytes = result.usage.memory_bytes
    if num_bytes is None or result.throughput is None:
        return None
    return Point(value=num_bytes / _GIB)

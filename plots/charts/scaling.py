"""Throughput against GPUs: a line per strategy or setting, its spread, and the ideal line."""

from collections.abc import Iterator, Sequence

from analysis.pivot import Table
from analysis.results import Result
from plots.drawing import Picture
from plots.lines import LineChart, draw_lines, throughput_point
from plots.source import PlotSource

ABOUT = "throughput against GPUs, a line per strategy or setting, and the ideal line"


def draw(source: PlotSource) -> Iterator[Picture]:
    """Yield a picture per model and machine that has a line; `throughput` has single points."""
    chart = LineChart(
        along="num_gpus",
        title=lambda table: table.unit,
        point=throughput_point,
        ideal=_ideal,
        lack="no strategy completed on two GPU counts",
        about=_about,
    )
    return draw_lines(source, chart)


def _start(results: Sequence[Result]) -> tuple[int, float, str]:
    """Return number of GPUs, throughput and strategy of the best on the fewest GPUs, of all that is
    shown and of the baselines of that, which a filter may have left out.
    """
    starts = []
    for result in results:
        for source in (result, result.baseline):
            if source is not None and source.throughput is not None:
                starts.append((source.num_gpus, source.throughput, source.strategy))
    return min(starts, key=lambda start: (start[0], -start[1]))


def _ideal(results: Sequence[Result]) -> list[tuple[int, float]]:
    """Return no line where steps are counted: on more GPUs a step may have more items."""
    if all(result.throughput is None or result.counts_steps for result in results):
        return []
    num_gpus, throughput, _ = _start(results)
    counts = {result.num_gpus for result in results if result.num_gpus >= num_gpus} | {num_gpus}
    return [(count, throughput * count / num_gpus) for count in sorted(counts)]


def _about(table: Table) -> list[str]:
    if not _ideal(table.results):
        return ["no ideal line: how many items a step has is unknown"]
    num_gpus, _, strategy = _start(table.results)
    counted = table.environment.counted(num_gpus)
    return [f"ideal: {strategy} on {counted}, the best there, times the number of devices"]

"""Efficiency against GPUs: the part of a perfect speed-up that each strategy reaches."""

from collections.abc import Iterator, Sequence

from analysis.results import Result
from analysis.titles import step_notes
from plots.drawing import NothingToShow, Picture
from plots.lines import LineChart, Point, draw_lines
from plots.source import PlotSource
from scalemark.stats.welch import known_ratio_interval

ABOUT = "part of a perfect speed-up against GPUs, a line per strategy or setting"


def draw(source: PlotSource) -> Iterator[Picture]:
    """Yield a picture per model and machine that has a baseline."""
    if all(result.efficiency is None for result in source.results):
        notes = step_notes(source.results)
        raise NothingToShow(notes[0] if notes else "no number on 1 device to compare with")
    rule = source.selection.baseline
    chart = LineChart(
        along="num_gpus",
        title=lambda table: "efficiency",
        point=_point,
        ideal=_ideal,
        lack="no strategy has an efficiency on two GPU counts",
        is_share=True,
        about=lambda table: [f"efficiency: speed-up over the baseline ({rule}), per device"],
    )
    return draw_lines(source, chart)


def _point(result: Result) -> Point | None:
    if result.efficiency is None or result.baseline is None or result.throughput is None:
        return None
    low = high = None
    if result.baseline.trial_id != result.trial_id:
        # none where a side ran in a single process: what another would bring is not known
        low, high = known_ratio_interval(result.repeats, result.baseline.repeats)
    per_device = result.baseline.num_gpus / result.num_gpus
    if low is not None and high is not None:
        low, high = low * per_device, high * per_device
    return Point(value=result.efficiency, low=low, high=high)


def _ideal(results: Sequence[Result]) -> list[tuple[int, float]]:
    return [(count, 1.0) for count in sorted({result.num_gpus for result in results})]

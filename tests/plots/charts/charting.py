"""Charts as figures, of trials with known numbers, and where their texts stand."""

import math
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import matplotlib
import pytest
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.selection import Selection
from plots.drawing import NothingToShow, Picture, chart, described, finish, settings
from plots.source import PlotSource
from scalemark.records.measurement import Phase, StepSample
from scalemark.records.trial import TrialSpec
from tests.specs import small

STRATEGIES = [
    {"variable_update": "replicated", "all_reduce": "none"},
    {"variable_update": "parameter_server", "local_parameter_device": "cpu"},
    {"variable_update": "replicated", "all_reduce": "nccl"},
    {"variable_update": "parameter_server", "local_parameter_device": "gpu"},
    {"variable_update": "replicated", "all_reduce": "pscpu"},
    {"variable_update": "independent", "all_reduce": "none"},
    {"variable_update": "mirrored", "all_reduce": "hierarchical_copy"},
    {"variable_update": "distributed_all_reduce", "all_reduce": "collective_ring"},
    {"variable_update": "distributed_parameter_server", "local_parameter_device": "cpu"},
    {"variable_update": "distributed_replicated", "all_reduce": "none"},
    {"variable_update": "replicated", "all_reduce": "psgpu"},
    {"variable_update": "a_way_of_sharing_that_somebody_gave_a_name_far_longer_than_any_label"},
]
"""Of the sizes that pictures are tested with, 1, 5 and 12, the first so many."""


def resnet(strategy: int = 0, num_gpus: int = 1, **axes: object) -> TrialSpec:
    return small(
        **{"model": "resnet50", "image_px": 64, "num_gpus": num_gpus} | STRATEGIES[strategy] | axes
    )


def speed(strategy: int = 0, num_gpus: int = 1, repeat: int = 0) -> float:
    """Images/s: each strategy a little slower than the one before, each repeat 2 % faster."""
    return 100 * num_gpus**0.8 * 0.93**strategy * 1.02**repeat


def steps(median_s: float, num_warm_up: int = 6, num_measured: int = 20) -> list[StepSample]:
    """A warm-up that calms down, and a wavy window."""
    durations = [median_s * (1 + 2 / (index + 1) ** 2) for index in range(num_warm_up)]
    durations += [median_s * (1 + 0.1 * math.sin(2.3 * index)) for index in range(num_measured)]
    starts = [sum(durations[:index]) for index in range(len(durations))]
    return [
        StepSample(
            step=index,
            phase=Phase.WARM_UP if index < num_warm_up else Phase.MEASURE,
            start_s=start_s,
            duration_s=duration_s,
            data_wait_s=0.0,
            loss=1.0,
        )
        for index, (start_s, duration_s) in enumerate(zip(starts, durations, strict=True))
    ]


_DETAILS: WeakKeyDictionary[Figure, str] = WeakKeyDictionary()


def pictures(
    name: str,
    db: str = "results.db",
    **selection: Any,
) -> list[Picture]:
    """Of that chart, each with its footer."""
    chosen = Selection(db=db, **selection)
    source = PlotSource(selection=chosen, command=f"scalemark chart {name}")
    with matplotlib.rc_context(settings()):
        found = []
        try:
            found.extend(chart(name).draw(source))
        except NothingToShow:  # perhaps of some settings alone
            if not found:
                raise
        for picture in found:
            finish(picture)
            _DETAILS[picture.figure] = described(source, picture)
    return found


def picture(name: str, **selection: Any) -> Figure:
    """The only one."""
    (found,) = pictures(name, **selection)
    return found.figure


def details(figure: Figure) -> str:
    """What its file says of it."""
    return _DETAILS[figure]


def words(figure: Figure) -> str:
    """All that can be read in it, as if no line were broken."""
    return "\n".join(
        re.sub(r"(?<=[_/,=-])\n", "", text.get_text()).replace("\n", " ") for text in texts(figure)
    )


def texts(figure: Figure) -> Iterator[Text]:
    """That are seen."""
    FigureCanvasAgg(figure).draw()
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        own = [child for child in axes.get_children() if isinstance(child, Text)]
        found += [*own, *_of_axis(axes.xaxis), *_of_axis(axes.yaxis)]
    yield from (text for text in found if text.get_visible() and text.get_text().strip())


def _of_axis(axis: Axis) -> list[Text]:
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_major_ticks(), axis.get_majorticklocs(), strict=True)
    shown = [tick for tick, at in ticks if low <= at <= high]
    return [
        axis.label,
        axis.offsetText,
        *(label for tick in shown for label in (tick.label1, tick.label2)),
    ]


picture_test = pytest.mark.mpl_image_compare(savefig_kwargs={"dpi": 60})
"""Marks a test whose figure is compared with its baseline."""


def checked(figure: Figure) -> Figure:
    """For a picture test: no text stands in the way of another."""
    found = overlaps(figure)
    assert not found, found
    return figure


def overlaps(figure: Figure) -> list[str]:
    """Texts that stand in each other's way, or out of the picture."""
    boxes = [(text.get_text(), text.get_window_extent().padded(-0.5)) for text in texts(figure)]
    width, height = figure.canvas.get_width_height()
    outside = [
        f"{reported!r} is cut off"
        for reported, box in boxes
        if min(box.x0, box.y0) < 0 or box.x1 > width or box.y1 > height
    ]
    return outside + [
        f"{one!r} on {other!r}" for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)
    ]

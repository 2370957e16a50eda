"""Charts with a row per attempt: steps and parts are those of the database."""

import numpy as np
import pytest

from plots.drawing import NothingToShow
from scalemark.records.measurement import Phase, StepSample
from tests.filled import fill
from tests.plots.charts.charting import details, overlaps, picture, pictures, resnet, steps, words


def of(figure, gid, axes=0):
    return [line for line in figure.axes[axes].get_lines() if line.get_gid() == gid]


def test_distributions_leave_out_the_first_step_of_each_process():
    times = [steps(0.02), steps(0.03)]
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(), 70.0)],
        details=[{"steps": of_one} for of_one in times],
    )
    figure = picture("step_times")
    counted = np.concatenate([[1000 * step.duration_s for step in one][7:] for one in times])
    wanted = {"range": (5, 95), "middle half": (25, 75), "median": (50,)}
    for gid, percentiles in wanted.items():
        (line,) = of(figure, gid)
        assert list(line.get_xdata()) == pytest.approx(
            list(np.percentile(counted, percentiles)), rel=1e-3
        )


def test_warm_up_is_shaded_up_to_the_window_which_is_marked_at_its_median():
    fill("results.db", [(resnet(), 100.0)], details=[{"steps": (stored := steps(0.02))}])
    axes = picture("step_times").axes[1]
    assert list(axes.get_lines()[0].get_ydata()) == pytest.approx(
        [1000 * step.duration_s for step in stored], rel=1e-3
    )
    (shade,) = axes.patches
    assert (shade.get_x(), shade.get_x() + shade.get_width()) == (-0.5, 5.5)
    (window,) = axes.collections
    ((begin, median), (end, _)) = window.get_segments()[0]
    assert (begin, end) == (6, 25)
    assert median == pytest.approx(
        1000 * np.median([step.duration_s for step in stored[7:]]), rel=1e-3
    )


def test_a_call_of_many_steps_is_reported_per_step():
    calls = [
        StepSample(
            step=4 * index,
            phase=Phase.MEASURE,
            start_s=index,
            duration_s=0.4,
            data_wait_s=0.0,
            loss=1.0,
            num_steps=4,
        )
        for index in range(3)
    ]
    fill("results.db", [(resnet(steps_per_execution=4), 100.0)], details=[{"steps": calls}])
    assert list(picture("step_times").axes[1].get_lines()[0].get_ydata()) == pytest.approx(
        [100.0] * 3
    )


def test_measuring_before_the_steady_state_is_said():
    fill("results.db", [(resnet(), 100.0)], details=[{"steady": False}])
    assert "warm-up not ended: replicated_none x 1" in words(picture("step_times"))


def test_of_many_trials_those_on_the_most_devices_are_drawn():
    fill(
        "results.db",
        [(resnet(index, num_gpus), 10.0) for index in range(12) for num_gpus in (1, 2, 4)],
    )
    figure = picture("step_times")
    assert len(figure.axes[0].get_yticks()) == 24
    assert len(figure.axes) == 5
    assert "not drawn: 12 of 36 trials, on the fewest devices" in words(figure)
    assert "step by step: 4 of 24" in details(figure)


@pytest.mark.parametrize("details", [[{}], [{"steps": []}]])
def test_without_steps_there_is_nothing_to_show(details):
    fill("results.db", [(resnet(), 100.0 if details != [{}] else None)], details=details)
    with pytest.raises(NothingToShow, match="no step is stored of a completed attempt"):
        pictures("step_times")


def test_odd_steps_are_drawn_all_the_same():
    """Of no duration; warm-up alone; one that took minutes; one alone."""
    shown = [
        [
            StepSample(
                step=0, phase=Phase.MEASURE, start_s=0.0, duration_s=0.0, data_wait_s=0.0, loss=None
            )
        ],
        steps(0.1, num_measured=0),
        steps(200.0),
        steps(0.1, num_warm_up=0, num_measured=1),
    ]
    fill(
        "results.db",
        [(resnet(index), 1.0) for index in range(4)],
        details=[{"steps": one} for one in shown],
    )
    assert overlaps(picture("step_times")) == []

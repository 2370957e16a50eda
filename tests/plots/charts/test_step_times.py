"""Step times: distributions, warm-up and window are those of the database."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from plots.pictures.drawing import NothingToShow
from plots.pictures.theme import Theme
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from tests.filled import fill
from tests.plots.charts.charting import (
    checked,
    details,
    overlaps,
    picture,
    picture_test,
    pictures,
    resnet,
    speed,
    steps,
    words,
)


def fill_with(num_strategies: int) -> None:
    """On 1 and 2 devices; of few strategies two processes each."""
    num_repeats = 2 if num_strategies < 12 else 1
    shown = [
        (index, num_gpus, repeat)
        for num_gpus in (1, 2)
        for index in range(num_strategies)
        for repeat in range(num_repeats)
    ]
    fill(
        "results.db",
        [
            (resnet(index, num_gpus), speed(index, num_gpus, repeat))
            for index, num_gpus, repeat in shown
        ],
        details=[
            {"steps": steps(2 * num_gpus / speed(index, num_gpus, repeat))}
            for index, num_gpus, repeat in shown
        ],
    )


@pytest.mark.integration
@picture_test
@pytest.mark.parametrize("num_series", [1, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int) -> Figure:
    fill_with(num_series)
    return checked(picture("step_times"))


@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(2)
    return checked(picture("step_times", Theme.DARK))


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
    counted = [[1000 * step.duration_s for step in of_one][7:] for of_one in times]
    assert sorted(of(figure, "dots")[0].get_xdata()) == pytest.approx(
        sorted(np.concatenate(counted)), rel=1e-3
    )
    assert list(of(figure, "medians")[0].get_xdata()) == pytest.approx(
        [np.median(one) for one in counted], rel=1e-3
    )
    assert list(of(figure, "middle half")[0].get_xdata()) == pytest.approx(
        list(np.percentile(np.concatenate(counted), (25, 75))), rel=1e-3
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
    assert "warm-up, not steady at its end" in words(picture("step_times"))


def test_the_footer_names_machine_database_and_command():
    fill("results.db", [(resnet(num_gpus=2), 100.0)])
    figure = picture("step_times")
    reported = f"{words(figure)}\n{details(figure)}"
    for part in (
        "testbox: 2 cores Testium",
        "TensorFlow 2.21.0",
        "results.db",
        "python -m plots charts step_times",
    ):
        assert part in reported
    assert "number of CPU devices" in reported
    assert "GPU" not in reported.replace("nothing here speaks of GPUs", "")
    assert DeviceKind.CPU_DEVICE.note.split(":")[0] in reported


def test_of_many_trials_those_on_the_most_devices_are_drawn():
    fill(
        "results.db",
        [(resnet(index, num_gpus), 10.0) for index in range(12) for num_gpus in (1, 2, 4)],
    )
    figure = picture("step_times")
    assert len(figure.axes[0].get_yticks()) == 24
    assert len(figure.axes) == 5
    assert "not all trials" in words(figure)
    reported = details(figure)
    assert (
        "left out: 12 of 36 trials, those on the fewest devices; see them with num_gpus<=1"
        in reported
    )
    assert "step by step: 4 of 24 trials" in reported


def test_machines_are_never_mixed(second_machine):
    fill("results.db", [(resnet(), 100.0)])
    fill("results.db", [(resnet(), 50.0)], name="second", machine=second_machine)
    found = pictures("step_times")
    assert [("testbox" in words(one.figure), "otherbox" in words(one.figure)) for one in found] == [
        (True, False),
        (False, True),
    ]


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
    assert overlaps(figure := picture("step_times")) == []
    assert "s per step" in [axes.get_ylabel() for axes in figure.axes]

"""Charts with a row per attempt: steps and parts are those of the database."""

from collections.abc import Mapping

import numpy as np
import pytest
from matplotlib.axes import Axes

from plots.drawing import NothingToShow
from scalemark.records.measurement import Outcome, Phase, StepSample
from tests.filled import STEPS, fill
from tests.plots.charts.charting import details, overlaps, picture, pictures, resnet, steps, words


def lengths(axes: Axes) -> Mapping[str, list[float]]:
    """Of the parts of all bars."""
    return {str(bars.get_label()): [bar.get_width() for bar in bars] for bars in axes.containers}


def test_an_attempt_is_distinguished_from_its_start_to_its_end():
    fill("results.db", [(resnet(), 100.0)], details=[{"data_wait_share": 0.25}])
    figure = picture("time_spent")
    (attempts,) = figure.axes
    expected = {
        "start": 3.0,
        "tracing": 1.0,
        "first call (compiling)": 2.0,
        "warm-up": 0.2,
        "measured window": 0.2,
        "the rest": 3.1,
    }
    assert lengths(attempts) == {
        part: [pytest.approx(seconds)] for part, seconds in expected.items()
    }
    assert "25% waiting for data" in words(figure)


def test_an_attempt_stands_for_its_trial_that_had_the_median_throughput():
    fill(
        "results.db",
        [(resnet(), 90.0), (resnet(), 110.0), (resnet(), 100.0)],
        details=[{"trace_s": 1.0}, {"trace_s": 2.0}, {"trace_s": 3.0}],
    )
    (found,) = pictures("time_spent")
    assert lengths(found.figure.axes[0])["tracing"] == [3.0]
    assert "of repeats the one with the median throughput" in words(found.figure)


def test_time_without_a_measurement_is_not_known_and_has_its_symbol():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(1), None)],
        details=[{}, {"outcome": Outcome.HUNG, "duration_s": 60.0}],
    )
    (found,) = pictures("time_spent")
    assert lengths(found.figure.axes[0])["not known"] == [60.0, 0.0]
    assert [text.get_text() for text in found.figure.axes[0].texts] == ["HANG", ""]
    assert "HANG: its steps stopped" in words(found.figure)


def test_an_attempt_whose_end_nobody_saw_is_reported():
    fill("results.db", [(resnet(), None)], details=[{"duration_s": None}])
    (found,) = pictures("time_spent")
    assert lengths(found.figure.axes[0]) == {}
    assert "FAIL: failed" in words(found.figure)
    assert overlaps(found.figure) == []


def test_without_steps_warm_up_is_not_known():
    fill("results.db", [(resnet(), 100.0)], details=[{"steps": []}])
    found = lengths(picture("time_spent").axes[0])
    assert "warm-up" not in found
    assert found["not known"] == [pytest.approx(9.5 - 6.0 - 0.2)]


def test_clocks_that_disagree_give_no_bar_of_less_than_nothing():
    fill(
        "results.db",
        [(resnet(), 100.0)],
        details=[{"time_to_first_step_s": 1.0, "duration_s": 2.0, "steps": STEPS}],
    )
    assert all(
        length >= 0 for of in lengths(picture("time_spent").axes[0]).values() for length in of
    )


def test_published_figures_have_no_attempts(published):
    with pytest.raises(NothingToShow, match="published figures have no attempts"):
        pictures("time_spent", origin=published)


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

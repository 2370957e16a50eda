"""Where the time goes: parts of attempts and steps are those of the database, and what is not known is not reported."""

from collections.abc import Mapping

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.charts.time_spent import exposed_share, op_shares
from plots.pictures.drawing import NothingToShow
from plots.pictures.theme import Theme
from scalemark.records.measurement import Profile
from scalemark.records.outcomes import Outcome
from tests.filled import STEPS, fill
from tests.plots.charts.charting import (
    checked,
    overlaps,
    picture,
    picture_test,
    pictures,
    resnet,
    speed,
    steps,
    words,
)

PROFILE = Profile(
    num_steps=2,
    step_s=0.1,
    op_class_s={"convolution": 0.06, "matmul": 0.02, "reduction": 0.01, "copy": 0.01},
    reduction_s=0.02,
    exposed_reduction_s=0.015,
    num_copies=1,
    copied_bytes=None,
    num_ops={"CPU:0": 10},
    busy_share={"CPU:0": 0.9},
    launch_gap_share=None,
    tensor_core_share=None,
    input_wait_s=0.0,
    problems="",
    folder="profile",
)


def fill_with(num_strategies: int, **detail: object) -> None:
    """On 1 and 2 devices; the last strategy does not fit on 2."""
    shown = [(index, num_gpus) for num_gpus in (1, 2) for index in range(num_strategies)]
    fails = (num_strategies - 1, 2)
    fill(
        "results.db",
        [(resnet(*of), None if of == fails else speed(*of)) for of in shown],
        details=[
            {"outcome": Outcome.OUT_OF_MEMORY}
            if of == fails
            else {
                "steps": steps(0.1),
                "window_s": 2.0,
                "data_wait_share": 0.1 * of[1],
                "duration_s": 12.0 + of[0],
                **detail,
            }
            for of in shown
        ],
    )


@picture_test
@pytest.mark.parametrize("num_series", [1, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int) -> Figure:
    fill_with(num_series)
    return checked(picture("time_spent"))


@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(3)
    return checked(picture("time_spent", Theme.DARK))


@pytest.mark.integration
@picture_test
def test_the_picture_of_profiles() -> Figure:
    many = {
        name: 0.01 * (index + 1)
        for index, name in enumerate(
            ["loss", "layout", "update", "normalization", "pooling", "input"]
        )
    }
    fill(
        "results.db",
        [(resnet(index), speed(index)) for index in range(3)],
        details=[
            {"profile": PROFILE},
            {"profile": PROFILE},
            {"profile": Profile(**reported(PROFILE) | {"op_class_s": PROFILE.op_class_s | many})},
        ],
    )
    return checked(pictures("time_spent")[1].figure)


def reported(profile: Profile) -> dict[str, object]:
    return {name: getattr(profile, name) for name in Profile.__slots__}


def lengths(axes: Axes) -> Mapping[str, list[float]]:
    """Of the parts of all bars."""
    return {str(bars.get_label()): [bar.get_width() for bar in bars] for bars in axes.containers}


def test_an_attempt_is_distinguished_from_its_start_to_its_end():
    fill("results.db", [(resnet(), 100.0)], details=[{"data_wait_share": 0.25}])
    attempts, step = picture("time_spent").axes
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
    assert lengths(step) == {"waiting for data": [25.0], "computing": [75.0]}


@pytest.mark.parametrize(("share", "num_axes"), [(None, 1), (0.001, 1), (0.05, 2)])
def test_a_window_of_computing_alone_is_not_drawn(share, num_axes):
    fill("results.db", [(resnet(), 100.0)], details=[{"data_wait_share": share}])
    assert len(picture("time_spent").axes) == num_axes


def test_an_attempt_stands_for_its_trial_that_had_the_median_throughput():
    fill(
        "results.db",
        [(resnet(), 90.0), (resnet(), 110.0), (resnet(), 100.0)],
        details=[{"trace_s": 1.0}, {"trace_s": 2.0}, {"trace_s": 3.0}],
    )
    (found,) = pictures("time_spent")
    assert lengths(found.figure.axes[0])["tracing"] == [3.0]
    assert "of the repeats of a trial the one with the median throughput is drawn" in found.about


def test_time_without_a_measurement_is_not_known_and_has_its_symbol():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(1), None)],
        details=[{}, {"outcome": Outcome.HUNG, "duration_s": 60.0}],
    )
    (found,) = pictures("time_spent")
    assert lengths(found.figure.axes[0])["not known"] == [60.0, 0.0]
    assert [text.get_text() for text in found.figure.axes[0].texts] == ["HANG", ""]
    assert "without a measurement: 1 of 2" in found.about


def test_an_attempt_whose_end_nobody_saw_is_reported():
    fill("results.db", [(resnet(), None)], details=[{"duration_s": None}])
    (found,) = pictures("time_spent")
    assert lengths(found.figure.axes[0]) == {}
    assert "nobody saw the end of 1 of 1: no bar, or a part" in found.about
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


def test_ops_are_shares_of_the_time_in_ops():
    fill("results.db", [(resnet(), 100.0)], details=[{"profile": PROFILE}])
    ops, step = pictures("time_spent")[1].figure.axes
    shares = {"convolution": 60, "matmul": 20, "reduction": 10, "copy": 10}
    assert lengths(ops) == {op_class: [pytest.approx(share)] for op_class, share in shares.items()}
    assert [bar.get_width() for bar in step.patches] == [pytest.approx(15.0)]


def test_without_a_profile_there_are_no_shares_of_ops():
    assert op_shares({"recorded_profile": None}) == {}
    assert op_shares({"recorded_profile": {"op_class_s": {"copy": 0.0}}}) == {}
    assert exposed_share({"recorded_profile": {"exposed_reduction_s": 1.0, "step_s": 0.0}}) == 0.0


def test_nothing_here_speaks_of_gpus():
    fill_with(2, profile=PROFILE)
    for found in pictures("time_spent"):
        assert "number of CPU devices" in words(found.figure)
        assert "GPU" not in words(found.figure).replace("nothing here speaks of GPUs", "")


def test_published_figures_have_no_attempts(published):
    with pytest.raises(NothingToShow, match="published figures have no attempts"):
        pictures("time_spent", origin=published)

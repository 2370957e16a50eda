"""Speed-ups and efficiencies: told against a named baseline, or said to have none."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from analysis.results import BaselineRule
from analysis.selection import Selection
from plots.pictures.drawing import NothingToShow, draw
from plots.pictures.theme import Theme
from plots.source import Source
from scalemark.stats.welch import ratio_interval
from tests.filled import fill
from tests.plots.charts.charting import checked, details, picture, pictures, resnet, speed, words
from tests.plots.charts.test_scaling_chart import curves, fill_with, picture_test
from tests.specs import small

RATIOS = ["speed_up", "efficiency"]


@pytest.mark.integration
@picture_test
@pytest.mark.parametrize("chart", RATIOS)
@pytest.mark.parametrize("num_series", [1, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int, chart: str) -> Figure:
    fill_with(num_series)
    return checked(picture(chart))


@picture_test
@pytest.mark.parametrize("chart", RATIOS)
def test_the_picture_in_the_dark(chart: str) -> Figure:
    fill_with(5)
    return checked(picture(chart, Theme.DARK))


@picture_test
def test_the_picture_without_a_run_on_1() -> Figure:
    fill_with(5, (2, 4, 8))
    return checked(picture("speed_up"))


def test_speed_ups_are_over_the_same_strategy_on_1():
    fill(
        "results.db",
        [
            (resnet(), 100.0),
            (resnet(num_gpus=2), 180.0),
            (resnet(1), 50.0),
            (resnet(1, num_gpus=2), 80.0),
        ],
    )
    figure = picture("speed_up")
    assert curves(figure) == {
        "replicated_none": ([1, 2], [1, 1.8]),
        "ps_cpu": ([1, 2], [1, 1.6]),
        "ideal": ([1, 2], [1, 2]),
    }
    assert "times the same strategy on 1 CPU device" in words(figure)
    efficiency = picture("efficiency")
    assert curves(efficiency)["replicated_none"] == ([1, 2], [1, 0.9])
    assert curves(efficiency)["ideal"] == ([1, 2], [1, 1])
    assert (
        "speed-up over the same strategy on 1 CPU device, divided by number of CPU devices"
        in words(efficiency)
    )


def test_the_best_on_1_is_named_with_its_number():
    fill("results.db", [(resnet(), 100.0), (resnet(1), 50.0), (resnet(1, num_gpus=2), 80.0)])
    figure = picture("speed_up", baseline=BaselineRule.BEST)
    assert curves(figure)["ps_cpu"] == ([1, 2], [0.5, 0.8])
    assert "times replicated_none on 1 CPU device (100 images/s)" in words(figure)


def test_a_curve_that_cannot_begin_on_1_names_what_it_is_over():
    shards = {"variable_update": "sharded"}
    fill(
        "results.db",
        [
            (resnet(), 100.0),
            (resnet(num_gpus=2), 150.0),
            (resnet(num_gpus=2, **shards), 180.0),
            (resnet(num_gpus=4, **shards), 300.0),
        ],
    )
    assert curves(picture("speed_up"))["sharded (over replicated_none)"] == ([2, 4], [1.8, 3])


def test_the_bars_are_intervals_of_the_ratio_where_both_ran_twice():
    fill_with(1, (1, 2))
    (bars,) = picture("speed_up").axes[0].collections
    on_1, on_2 = ([speed(0, num_gpus, repeat) for repeat in range(3)] for num_gpus in (1, 2))
    assert [(low, high) for (_, low), (_, high) in bars.get_segments()] == [
        pytest.approx(ratio_interval(on_2, on_1))
    ]  # type: ignore[attr-defined]


def test_a_process_alone_has_no_bar():
    fill_with(1, (1, 2), num_repeats=1)
    assert list(picture("speed_up").axes[0].collections) == []


def test_a_strategy_without_a_baseline_is_named_with_the_alternative():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(num_gpus=2), 180.0), (resnet(1, num_gpus=2), 80.0)],
    )
    figure = picture("speed_up")
    assert "ps_cpu" not in curves(figure)
    reported = "Not drawn, for want of a number on 1 CPU device to compare with: ps_cpu. The alternative: --baseline fewest."
    assert reported in words(figure)


def test_where_nothing_ran_on_1_the_fewest_stand_in_and_the_chart_says_so():
    fill(
        "results.db",
        [(resnet(num_gpus=2), 100.0), (resnet(num_gpus=4), 150.0), (resnet(1, num_gpus=2), 50.0)],
    )
    figure = picture("speed_up")
    assert curves(figure)["replicated_none (over its 2)"] == ([2, 4], [1, 1.5])
    assert curves(figure)["ideal, over 2"] == ([2, 4], [1, 2])
    assert (
        "No number on 1 CPU device to compare with: against the fewest that each strategy completed on."
        in words(figure)
    )
    assert curves(picture("efficiency"))["replicated_none (over its 2)"] == ([2, 4], [1, 0.75])


@pytest.mark.parametrize("chart", RATIOS)
def test_one_gpu_count_alone_is_nothing_to_show(chart: str):
    fill("results.db", [(resnet(num_gpus=2), 100.0), (resnet(1, num_gpus=2), 50.0)])
    with pytest.raises(NothingToShow, match="no strategy completed on two GPU counts"):
        pictures(chart)


@pytest.mark.parametrize("chart", RATIOS)
def test_bars_need_not_their_baseline_in_the_picture(chart: str):
    fill_with(2, (1, 2, 4))
    whole, part = picture(chart), picture(chart, filters=("num_gpus>=2",))
    drawn = [
        [segment.tolist() for bars in figure.axes[0].collections for segment in bars.get_segments()]
        for figure in (whole, part)
    ]  # type: ignore[attr-defined]
    assert len(drawn[1]) == 4
    assert drawn[1] == drawn[0]


def test_wide_intervals_leave_efficiencies_readable():
    fill(
        "results.db",
        [
            (resnet(0, num_gpus), 100.0 * num_gpus * factor)
            for num_gpus in (1, 2)
            for factor in (0.8, 1.25 - 0.1 * num_gpus)
        ],
    )
    figure = picture("efficiency")
    assert figure.axes[0].get_ylim()[1] < 1.5
    assert "arrowheads: wider" in words(figure)


def test_a_speed_up_of_some_repeats_alone_is_ringed():
    fill("results.db", [(resnet(), 100.0), (resnet(num_gpus=2), 150.0), (resnet(num_gpus=2), None)])
    figure = picture("speed_up")
    assert [
        list(line.get_xdata()) for line in figure.axes[0].lines if line.get_label() == "_partly"
    ] == [[2]]  # type: ignore[arg-type]
    assert "ringed: failures" in words(figure)
    reported = "some repeats brought no number: replicated_none x 2 (1 of 2: FAIL)"
    assert reported in details(figure)


@pytest.mark.parametrize("chart", RATIOS)
def test_perfect_scaling_alone_is_nothing_to_show(chart: str):
    fill("results.db", [(resnet(num_gpus=num), 100.1 * num) for num in (1, 2, 4)])
    with pytest.raises(NothingToShow, match="that of perfect scaling"):
        pictures(chart)


def test_settings_without_two_counts_are_counted():
    fill("results.db", [(resnet(), 100.0), (resnet(num_gpus=2), 150.0), (small(), 1.0)])
    reported: list[str] = []
    source = Source(selection=Selection(db="results.db"), command="python -m plots charts")
    paths = draw(source, Path(), ["speed_up"], passed_over=lambda _, why: reported.append(why))
    assert [path.name for path in paths] == ["speed_up-resnet50.png"]
    assert reported == [
        "nothing to show of 1 of 2 settings: no strategy completed on two GPU counts, or all scale "
        "perfectly"
    ]

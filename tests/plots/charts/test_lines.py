"""Charts of lines: points are those of the database, and what failed is named where it failed."""

import pytest
from matplotlib.figure import Figure

from scalemark.records.machine import Machine
from scalemark.records.measurement import Outcome, Verdict
from tests.filled import fill
from tests.plots.charts.charting import details, picture, pictures, resnet, speed, words


def curves(figure: Figure, panel: int = 0) -> dict[str, tuple[list[float], list[float]]]:
    lines = figure.axes[panel].lines
    return {
        str(line.get_label()): ([*map(float, line.get_xdata())], [*map(float, line.get_ydata())])
        for line in lines
        if not str(line.get_label()).startswith("_")
    }


def marked(figure: Figure, gid: str) -> list[list[float]]:
    return [[*line.get_ydata()] for line in figure.axes[0].lines if line.get_gid() == gid]


def test_points_are_of_the_repeats_and_the_ideal_is_the_best_on_1_times_n():
    entries = [(resnet(way, num), speed(way, num)) for way in (0, 1) for num in (1, 2, 4)]
    fill("results.db", entries)
    found = curves(picture("scaling"))
    assert found["ps_cpu"] == ([1, 2, 4], pytest.approx([speed(1, num) for num in (1, 2, 4)]))
    assert found["ideal"] == ([1, 2, 4], pytest.approx([100, 200, 400]))


def test_few_repeats_are_dots_and_more_have_an_interval():
    few = [(resnet(0, 1), 100.0), (resnet(0, 1), 900.0)]
    many = [(resnet(0, 2), 180.0 + repeat) for repeat in range(4)]
    fill("results.db", [*few, *many])
    figure = picture("scaling")
    assert marked(figure, "runs") == [[100.0, 900.0]]
    assert figure.axes[0].get_ylim()[1] > 900
    (interval,) = [one for one in figure.axes[0].collections if one.get_gid() == "interval"]
    ((_, low), (_, high)) = interval.get_segments()[0]
    assert 175 < low < 181 < 182 < high < 188
    assert "dots: single repeats · bars: 95 % CI" in words(figure)


def test_failures_stand_at_their_count_by_name():
    fill(
        "results.db",
        [(resnet(num_gpus=num), None if num == 4 else 100.0 * num) for num in (1, 2, 4)],
        details=[{}, {}, {"outcome": Outcome.OUT_OF_MEMORY}],
    )
    figure = picture("scaling")
    (text,) = figure.axes[0].texts
    assert (text.get_text(), text.xy[0]) == ("OOM", 4)
    assert "OOM: out of memory" in words(figure)


def test_a_suspect_number_is_hollow_and_the_footer_says_so():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(num_gpus=2), 150.0)],
        details=[{}, {"verdict": Verdict.SUSPECT}],
    )
    figure = picture("scaling")
    assert marked(figure, "doubt") == [[150.0]]
    (hollow,) = [line for line in figure.axes[0].lines if line.get_gid() == "doubt"]
    others = [line for line in figure.axes[0].lines if line is not hollow]
    assert hollow.get_zorder() > max(line.get_zorder() for line in others), "filled points hid it"
    assert "hollow: in doubt" in words(figure)


def test_an_efficiency_over_a_doubted_baseline_is_hollow():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(num_gpus=2), 150.0)],
        details=[{"verdict": Verdict.SUSPECT}, {}],
    )
    assert marked(picture("efficiency"), "doubt") == [[1.0], [0.75]]
    assert marked(picture("scaling"), "doubt") == [[100.0]]


def test_axes_are_linear_up_to_a_span_of_16_and_logarithmic_beyond():
    fill("results.db", [(resnet(num_gpus=num), 90.0 * num) for num in (1, 16)])
    axes = picture("scaling").axes[0]
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylim()[0]) == ("linear", "linear", 0)
    fill("results.db", [(resnet(num_gpus=64), 5000.0)], name="second")
    wide = picture("scaling")
    assert (wide.axes[0].get_xscale(), wide.axes[0].get_yscale()) == ("log", "log")
    assert "number of CPU devices (log)" in words(wide)


def test_an_ideal_that_is_far_leaves_the_picture():
    fill("results.db", [(resnet(num_gpus=num), 100.0 + num) for num in (1, 8)])
    figure = picture("scaling")
    assert figure.axes[0].get_ylim()[1] < 160
    assert "ideal" in words(figure)


def test_the_ideal_starts_at_the_number_on_1_that_a_filter_left_out():
    fill("results.db", [(resnet(num_gpus=num), 80.0 * num) for num in (1, 2, 4)])
    found = curves(picture("scaling", filters=("num_gpus>1",)))
    assert found["ideal"] == ([1, 2, 4], [80, 160, 320])


def test_settings_are_lines_of_one_picture_and_panels_where_they_are_many():
    sizes, precisions = (8, 16, 32, 64), ("fp32", "bf16")
    entries = [
        (resnet(num_gpus=num, batch_size=size, precision=precision), 10.0 * num * size)
        for num in (1, 2)
        for size in sizes
        for precision in precisions
    ]
    fill("results.db", entries)
    found = curves(picture("scaling"))
    assert len(found) == 9  # with the ideal
    assert found["bf16, batch_size 64"] == ([1, 2], [640, 1280])
    more = [(resnet(1, spec.num_gpus, batch_size=spec.batch_size, precision=spec.precision), value)
            for spec, value in entries]  # fmt: skip
    fill("results.db", more, name="second")
    figure = picture("scaling")
    assert len([axes for axes in figure.axes if axes.get_visible()]) == 8
    assert set(curves(figure, 0)) == {"replicated_none", "ps_cpu", "ideal"}
    assert {axes.get_title(loc="left") for axes in figure.axes} >= {"fp32, batch_size 8"}


def test_panels_that_share_their_axes_show_every_point():
    """A bug: the last panel set the axes of all, and the fastest were out of the picture."""
    grids = [("bf16", (32, 48, 64), (1, 2, 8)), ("fp32", (8, 16, 24), (1, 2))]
    entries = [
        (resnet(way, num, batch_size=size, precision=precision), 10.0 * num * size)
        for precision, sizes, counts in grids
        for way in (0, 1)
        for num in counts
        for size in sizes
    ]
    fill("results.db", [*entries, *((resnet(2, num), 1.0) for num in (1, 2))])
    for axes in picture("scaling").axes:
        assert (axes.get_xlim()[1] > 8, axes.get_ylim()[1] > 5120) == (True, True)


def test_of_many_lines_the_fastest_are_drawn_and_the_others_counted():
    entries = [
        (resnet(num_gpus=num, batch_size=size), 10.0 * num * size)
        for num in (1, 2)
        for size in range(1, 21)
    ]
    fill("results.db", entries)
    figure = picture("scaling")
    assert len(curves(figure)) == 13
    assert "not drawn: 8 slower lines of 20" in words(figure)


def test_weak_and_strong_scaling_have_a_picture_each():
    entries = [
        (resnet(num_gpus=num, scaling=scaling, batch_size=size), 100.0 * num)
        for num in (1, 2)
        for scaling, size in (("weak", 16), ("strong", 16 // num))
    ]
    fill("results.db", entries)
    assert [found.name for found in pictures("scaling")] == ["resnet50", "resnet50"]


def test_each_machine_has_a_picture_of_its_own(second_machine: Machine):
    fill("results.db", [(resnet(num_gpus=num), 10.0 * num) for num in (1, 2)])
    fill(
        "results.db",
        [(resnet(num_gpus=num), 20.0 * num) for num in (1, 2)],
        name="second",
        machine=second_machine,
    )
    found = pictures("scaling")
    assert ["otherbox" in words(one.figure) for one in found] == [False, True]


def test_the_footer_says_what_is_constant_and_that_devices_are_cpus():
    fill("results.db", [(resnet(num_gpus=num), 10.0 * num) for num in (1, 2)])
    figure = picture("scaling")
    footer = words(figure)
    assert "fp32, synthetic data, image_px 64, batch_size 2" in footer
    assert "CPU devices · single run" in footer
    assert "testbox: 2 cores Testium" in footer
    assert "database results.db" in details(figure)


def test_efficiency_is_the_share_of_a_perfect_speed_up():
    fill("results.db", [(resnet(num_gpus=num), 100.0 * num**0.5) for num in (1, 4)])
    figure = picture("efficiency")
    assert curves(figure)["replicated_none"] == ([1, 4], pytest.approx([1.0, 0.5]))
    assert curves(figure)["ideal"] == ([1, 4], [1, 1])


def test_batch_sizes_that_did_not_fit_stand_at_their_size():
    entries = [
        (resnet(batch_size=size), None if size == 32 else 10.0 * size) for size in (8, 16, 32)
    ]
    fill("results.db", entries, details=[{}, {}, {"outcome": Outcome.OUT_OF_MEMORY}])
    figure = picture("batch_sizes")
    assert curves(figure)["replicated_none"] == ([8, 16], [80, 160])
    assert [(text.get_text(), text.xy[0]) for text in figure.axes[0].texts] == [("OOM", 32)]
    assert "batch size: images per device and step" in words(figure)


def test_memory_is_against_batch_sizes_and_else_against_devices():
    used = [{"peak_device_memory_bytes": num * 2**30} for num in (1, 3)]
    fill("results.db", [(resnet(num_gpus=num), 10.0) for num in (1, 2)], details=used)
    assert curves(picture("memory"))["replicated_none"] == ([1, 2], [1, 3])
    fill("results.db", [(resnet(batch_size=64), 10.0)], name="second", details=used[1:])
    found = curves(picture("memory"))
    assert found["1 CPU device"] == ([2, 64], [1, 3])

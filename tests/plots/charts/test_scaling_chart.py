"""Images/s against GPUs: the points are those of the database, and what failed is named where it failed."""

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETUP

from analysis.results import Origin
from analysis.selection import Selection
from plots.pictures.drawing import NothingToShow, chart, facts, finish
from plots.pictures.theme import PALETTES, Theme, settings
from plots.source import Source
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Machine
from scalemark.records.outcomes import Outcome, Verdict
from tests.filled import fill
from tests.plots.charts.charting import checked, details, picture, pictures, resnet, speed, words

picture_test = pytest.mark.mpl_image_compare(savefig_kwargs={"dpi": 60})
GPUS = (1, 2, 4, 8)


def pace(strategy: int, num_gpus: int, repeat: int) -> float:
    """Images/s: the later the strategy, the slower, and the worse it scales."""
    return speed(strategy, num_gpus, repeat) * num_gpus ** (-0.04 * strategy)


def fill_with(num_strategies: int, gpus: tuple[int, ...] = GPUS, num_repeats: int = 3) -> None:
    """The last two of five and more strategies do not fit on the last GPU counts."""
    shown = [(index, num_gpus) for index in range(num_strategies) for num_gpus in gpus]
    outcomes = {
        (3, gpus[-1]): Outcome.OUT_OF_MEMORY,
        (4, gpus[-2]): Outcome.HUNG,
        (4, gpus[-1]): Outcome.TIMED_OUT,
    }
    outcomes = {of: outcome for of, outcome in outcomes.items() if of in shown}
    every = [(of, repeat) for of in shown for repeat in range(num_repeats)]
    fill(
        "results.db",
        [(resnet(*of), None if of in outcomes else pace(*of, repeat)) for of, repeat in every],
        details=[{"outcome": outcomes[of]} if of in outcomes else {} for of, _ in every],
    )


@picture_test
@pytest.mark.parametrize("num_series", [1, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int) -> Figure:
    fill_with(num_series)
    return checked(picture("scaling"))


@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(5)
    return checked(picture("scaling", Theme.DARK))


@picture_test
def test_the_picture_up_to_64() -> Figure:
    fill_with(5, (1, 2, 4, 8, 16, 32, 64))
    return checked(picture("scaling"))


@pytest.mark.integration
@picture_test
def test_the_picture_of_every_count() -> Figure:
    fill_with(5, tuple(range(1, 17)))
    return checked(picture("scaling"))


@picture_test
def test_the_picture_with_logarithmic_axes() -> Figure:
    fill_with(5, (1, 2, 4, 8, 16, 32, 64))
    figure = checked(picture("scaling", is_log=True))
    assert (figure.axes[0].get_xscale(), figure.axes[0].get_yscale()) == ("log", "log")
    return figure


def test_axes_are_linear_unless_logarithmic_ones_are_asked_for():
    fill_with(2)
    axes = picture("scaling").axes[0]
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylim()[0]) == ("linear", "linear", 0)


def test_names_stand_at_the_ends_of_lines_and_bars_beside_them():
    fill_with(5)
    figure = checked(picture("scaling"))
    assert figure.legends == []
    bars = figure.axes[1]
    assert "on 8 CPU devices" in words(figure)
    assert {bar.get_label(): bar.patches[0].get_width() for bar in bars.containers} == {
        name: pytest.approx(pace(index, 8, 1))
        for index, name in enumerate(("replicated_none", "ps_cpu", "replicated_nccl"))
    }
    heights = {text.get_text(): text.get_position()[1] for text in figure.texts}
    by_height = sorted(
        ("replicated_none", "ps_cpu", "replicated_nccl"), key=heights.__getitem__, reverse=True
    )
    assert by_height == ["replicated_none", "ps_cpu", "replicated_nccl"]  # as the lines end
    failed = {text.get_text() for text in bars.texts}
    assert {"OOM", "TIMEOUT"} <= failed


def test_lines_that_coincide_are_moved_apart():
    fill("results.db", [(resnet(index, num), 100.0 * num) for index in (0, 1) for num in (1, 2)])
    axes = checked(picture("scaling")).axes[0]
    drawn = [line for line in axes.lines if line.get_label() in ("replicated_none", "ps_cpu")]
    places = [line.get_transform().transform((1, 100))[0] for line in drawn]
    assert abs(places[0] - places[1]) > 1


def test_an_ideal_that_is_far_leaves_the_picture():
    fill_with(1, (1, 2))
    fill("results.db", [(resnet(num_gpus=num), 100.0 + num) for num in (1, 8)], name="flat")
    figure = checked(picture("scaling", sweep="flat"))
    assert figure.axes[0].get_ylim()[1] < 150
    assert "ideal" in words(figure)


def curves(figure: Figure) -> dict[str, tuple[list[float], list[float]]]:
    """By name, without what has none."""
    lines = {str(line.get_label()): line for line in figure.axes[0].lines}
    return {
        name: ([float(x) for x in line.get_xdata()], [float(y) for y in line.get_ydata()])  # type: ignore[union-attr, arg-type]
        for name, line in lines.items()
        if not name.startswith("_")
    }


def test_points_are_of_the_repeats_and_the_ideal_is_the_best_on_1_times_n():
    fill_with(2, (1, 2))
    assert curves(picture("scaling")) == {
        "replicated_none": ([1, 2], pytest.approx([pace(0, 1, 1), pace(0, 2, 1)])),
        "ps_cpu": ([1, 2], pytest.approx([pace(1, 1, 1), pace(1, 2, 1)])),
        "ideal": ([1, 2], pytest.approx([speed(0, 1, 1), 2 * speed(0, 1, 1)])),
    }


def test_the_bars_are_the_intervals_of_the_database():
    # one process each: 95 to 105 % within it
    fill("results.db", [(resnet(), 100.0), (resnet(num_gpus=2), 180.0)])
    bars, _ = picture("scaling").axes[0].collections
    ((_, low), (_, high)) = bars.get_segments()[0]  # type: ignore[attr-defined]
    assert (low, high) == (95.0, 105.0)


def test_failures_stand_at_their_gpu_count_by_name():
    fill_with(5)
    reported = [
        (text.get_text(), text.get_position()[0]) for text in picture("scaling").axes[0].texts
    ]
    assert reported == [("OOM", 8), ("HANG", 4), ("TIMEOUT", 8)]


def test_a_number_that_may_not_be_quoted_is_a_symbol_and_no_point():
    fill("results.db", [(resnet(), 100.0), (resnet(num_gpus=2), 0.0), (resnet(num_gpus=4), 300.0)])
    figure = picture("scaling")
    assert curves(figure)["replicated_none"] == ([1, 4], [100, 300])
    assert [(text.get_text(), text.get_position()[0]) for text in figure.axes[0].texts] == [
        ("INVALID", 2)
    ]


def test_a_suspect_number_is_hollow_and_the_footer_says_so():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(num_gpus=2), 180.0)],
        details=[{"verdict": Verdict.SUSPECT}, {}],
    )
    figure = picture("scaling")
    (hollow,) = [line for line in figure.axes[0].lines if line.get_label() == "_suspect"]
    assert hollow.get_markerfacecolor() == "#FFFFFF"
    assert "hollow: suspect" in words(figure)


def test_the_footer_of_published_figures_names_no_attempt():
    chosen = Selection(db="nothing.db", origin=Origin.PUBLISHED, source="10723")
    of_published = Source(selection=chosen, command="python -m plots charts")
    for name in ("scaling", "throughput"):
        with matplotlib.rc_context(settings(Theme.LIGHT)):
            shown = next(chart(name).draw(of_published, PALETTES[Theme.LIGHT]))
            reported = words(finish(of_published, shown, PALETTES[Theme.LIGHT]))
        assert "in doubt" in reported
        of_file = facts(of_published, shown).description
        assert "published figures that come with scalemark" in of_file
        assert "store show" not in reported + of_file
        assert "nothing.db" not in reported + of_file


def test_one_point_per_line_is_nothing_to_show():
    fill("results.db", [(resnet(num_gpus=2), 100.0), (resnet(1), 90.0)])
    with pytest.raises(NothingToShow, match="no strategy completed on two GPU counts"):
        pictures("scaling")


def test_without_a_number_on_1_the_ideal_says_where_it_starts():
    fill("results.db", [(resnet(num_gpus=2), 100.0), (resnet(num_gpus=4), 150.0)])
    figure = picture("scaling")
    assert curves(figure)["ideal"] == ([2, 4], [100, 200])
    assert "No number on 1 CPU device: the ideal line starts at the best on 2 instead." in words(
        figure
    )
    assert "ideal: replicated_none on 2, the best there, times N/2" in details(figure)


def test_the_footer_is_one_line_and_the_file_has_the_details():
    fill_with(1)
    figure = picture("scaling")
    (footer,) = [text.get_text() for text in figure.texts if text.get_gid() == "footer"]
    assert footer == "CPU devices · bars: 95 % CI · testbox: 2 cores Testium"
    assert "GPU" not in words(figure)
    reported = details(figure)
    for part in (
        "testbox: 2 cores Testium, CPU devices",
        "TensorFlow 2.21.0, scalemark 0.1.0",
        "database results.db",
        "made by: python -m plots charts scaling",
        DeviceKind.CPU_DEVICE.note,
    ):
        assert part in reported
    assert "GPU" not in reported.replace(DeviceKind.CPU_DEVICE.note, "")


def test_a_single_run_is_a_badge():
    fill_with(1, num_repeats=1)
    assert "CPU devices · single run · " in words(picture("scaling"))


def test_weak_and_strong_scaling_are_reported_and_have_a_picture_each():
    weak = [resnet(num_gpus=num, scaling="weak") for num in (1, 2)]
    strong = [resnet(num_gpus=num, scaling="strong", batch_size=4 // num) for num in (1, 2)]
    fill("results.db", [(spec, 100.0) for spec in (*weak, *strong)])
    found = pictures("scaling")
    assert [picture.name for picture in found] == [
        "resnet50-batch_size=2-scaling=weak",
        "resnet50-batch_size=4 in all-scaling=strong",
    ]
    assert ["(weak scaling)" in words(picture.figure) for picture in found] == [True, False]
    assert ["(strong scaling)" in words(picture.figure) for picture in found] == [False, True]


def test_each_machine_has_a_picture_of_its_own(second_machine: Machine):
    both = resnet(), resnet(num_gpus=2)
    fill("results.db", [(spec, 100.0) for spec in both])
    fill("results.db", [(spec, 50.0) for spec in both], name="second", machine=second_machine)
    found = pictures("scaling")
    drawn = [curves(picture.figure)["replicated_none"][1] for picture in found]
    assert drawn == [[100.0, 100.0], [50.0, 50.0]]
    assert [picture.name[:17] for picture in found] == ["resnet50-testbox-", "resnet50-otherbox"]


def test_nothing_but_failures_is_nothing_to_show():
    fill("results.db", [(resnet(), None)])
    with pytest.raises(NothingToShow, match="no strategy completed"):
        pictures("scaling")


def test_published_figures_are_drawn_too(published):
    found = pictures("scaling", origin=published, source="tf-benchmarks-2017/p100")
    assert len(found) > 3
    assert "number of GPUs" in words(found[0].figure)
    assert "published: TensorFlow benchmarks page (2017)" in words(found[0].figure)


def test_wide_intervals_end_in_arrowheads():
    """Two repeats of 250 and 400 images/s: 95 % of such means lie anywhere between 16 and 6264."""
    fill(
        "results.db",
        [
            (resnet(), 100.0),
            (resnet(num_gpus=2), 200.0),
            (resnet(num_gpus=4), 250.0),
            (resnet(num_gpus=4), 400.0),
        ],
    )
    figure = checked(picture("scaling"))
    axes = figure.axes[0]
    low, high = axes.get_ylim()
    assert (low, high) == (0, pytest.approx(430, rel=0.15))
    bars = axes.collections[2].get_segments()[0]  # type: ignore[attr-defined]
    assert [y for _, y in bars] == pytest.approx([16, high], abs=0.5)
    arrows = [
        (line.get_marker(), list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.lines
        if line.get_label() == "_beyond"
    ]  # type: ignore[arg-type]
    assert arrows == [(CARETUP, [4], [pytest.approx(high)])]
    assert "arrowheads: wider" in words(figure)


def test_arrowheads_end_above_the_failures():
    fill(
        "results.db",
        [
            *((resnet(), 250.0), (resnet(), 400.0), (resnet(num_gpus=2), 400.0)),
            *((resnet(1), 300.0), (resnet(1, num_gpus=2), None)),
        ],
    )
    axes = picture("scaling", is_log=True).axes[0]
    (down,) = [
        line.get_ydata()[0]
        for line in axes.lines
        if line.get_label() == "_beyond" and line.get_marker() == CARETDOWN
    ]  # type: ignore[index]
    assert axes.get_ylim()[0] < down < 300  # type: ignore[operator]


def test_bars_within_the_picture_have_no_arrowheads():
    fill_with(5)
    figure = picture("scaling")
    assert not [line for line in figure.axes[0].lines if line.get_label() == "_beyond"]
    assert "arrowhead" not in words(figure)


@pytest.mark.parametrize("scale", [1.0, 12_345.0, 2e7])
def test_numbers_of_any_size_fit_beside_the_axis(scale: float):
    fill(
        "results.db",
        [(resnet(num_gpus=num_gpus), scale * num_gpus) for num_gpus in (1, 2, 3, 4, 5, 6)],
    )
    checked(picture("scaling"))


def test_the_ideal_starts_at_the_number_on_1_that_a_filter_left_out():
    fill(
        "results.db", [(resnet(num_gpus=num_gpus), 100.0 * num_gpus**0.5) for num_gpus in (1, 2, 4)]
    )
    figure = picture("scaling", filters=("num_gpus>=2",))
    assert curves(figure)["ideal"] == ([2, 4], [200, 400])
    assert "No number on 1" not in words(figure)
    assert "ideal: replicated_none on 1, the best there, times N" in details(figure)


def test_repeats_without_a_number_are_reported():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(), None), (resnet(num_gpus=2), 150.0)],
        details=[{}, {"outcome": Outcome.OUT_OF_MEMORY}, {}],
    )
    figure = picture("scaling")
    (ring,) = [line for line in figure.axes[0].lines if line.get_label() == "_partly"]
    assert list(ring.get_xdata()) == [1]  # type: ignore[arg-type]
    assert "ringed: failures" in words(figure)
    reported = "some repeats brought no number: replicated_none x 1 (1 of 2: OOM)"
    assert reported in details(figure)

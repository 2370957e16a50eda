"""Images/s against GPUs: the points are those of the database, and what failed is named where it failed."""

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETUP

from analysis.results import Origin
from analysis.selection import Selection
from plots.pictures.drawing import NothingToShow, chart, finish
from plots.pictures.theme import PALETTES, Theme, settings
from plots.source import Source
from scalemark.records.devices import CPU_DEVICES_NOTE
from scalemark.records.machine import Machine
from scalemark.records.outcomes import Outcome, Verdict
from tests.filled import fill
from tests.plots.charts.charting import checked, picture, pictures, resnet, speed, words

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
def test_the_picture_of_every_count_has_true_distances() -> Figure:
    fill_with(5, tuple(range(1, 17)))
    figure = checked(picture("scaling"))
    assert figure.axes[0].get_xscale() == "linear"
    return figure


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
    fill("results.db", [(resnet(), 100.0)])  # one process: 95 to 105 within it
    (bars,) = picture("scaling").axes[0].collections
    ((_, low), (_, high)) = bars.get_segments()[0]  # type: ignore[attr-defined]
    assert (low, high) == (95.0, 105.0)


def test_failures_stand_at_their_gpu_count_by_name():
    fill_with(5)
    reported = [
        (text.get_text(), text.get_position()[0]) for text in picture("scaling").axes[0].texts
    ]
    assert reported == [("OOM", 8), ("HANG", 4), ("TIMEOUT", 8)]


def test_a_number_that_may_not_be_quoted_is_a_symbol_and_no_point():
    fill("results.db", [(resnet(), 100.0), (resnet(num_gpus=2), 0.0)])
    figure = picture("scaling")
    assert curves(figure)["replicated_none"] == ([1], [100])
    assert [(text.get_text(), text.get_position()[0]) for text in figure.axes[0].texts] == [
        ("INVALID", 2)
    ]


def test_a_suspect_number_is_hollow_and_the_footer_says_so():
    fill("results.db", [(resnet(), 100.0)], details=[{"verdict": Verdict.SUSPECT}])
    figure = picture("scaling")
    (hollow,) = [line for line in figure.axes[0].lines if line.get_label() == "_suspect"]
    assert hollow.get_markerfacecolor() == "#FFFFFF"
    assert "hollow: suspect or invalid, see python -m store show" in words(figure)


def test_the_footer_of_published_figures_names_no_attempt():
    chosen = Selection(db="nothing.db", origin=Origin.PUBLISHED, source="10723")
    of_published = Source(selection=chosen, command="python -m plots charts")
    for name in ("scaling", "strategies"):
        with matplotlib.rc_context(settings(Theme.LIGHT)):
            shown = next(chart(name).draw(of_published, PALETTES[Theme.LIGHT]))
            reported = words(finish(of_published, shown, PALETTES[Theme.LIGHT]))
        assert "left in doubt by its source" in reported
        assert "published figures that come with scalemark" in reported
        assert "store show" not in reported
        assert "nothing.db" not in reported


def test_a_single_point_has_no_ideal_line():
    fill("results.db", [(resnet(num_gpus=2), 100.0)])
    assert curves(picture("scaling")) == {"replicated_none": ([2], [100])}


def test_without_a_number_on_1_the_ideal_says_where_it_starts():
    fill("results.db", [(resnet(num_gpus=2), 100.0), (resnet(num_gpus=4), 150.0)])
    figure = picture("scaling")
    assert curves(figure)["ideal"] == ([2, 4], [100, 200])
    assert "No number on 1 CPU device: the ideal line starts at the best on 2 instead." in words(
        figure
    )
    assert "ideal: replicated_none on 2, the best there, times N/2" in words(figure)


def test_the_footer_names_machine_versions_database_and_command():
    fill_with(1)
    reported = words(picture("scaling"))
    for part in (
        "testbox: 2 cores Testium, CPU devices",
        "TensorFlow 2.21.0, scalemark 0.1.0",
        "database results.db",
        "made by: python -m plots charts scaling",
        CPU_DEVICES_NOTE,
    ):
        assert part in reported
    assert "GPU" not in reported.replace(CPU_DEVICES_NOTE, "")


def test_weak_and_strong_scaling_are_reported_and_have_a_picture_each():
    fill("results.db", [(resnet(scaling=scaling), 100.0) for scaling in ("weak", "strong")])
    found = pictures("scaling")
    assert [picture.name for picture in found] == [
        "resnet50-batch_size=2-scaling=weak",
        "resnet50-batch_size=2 in all-scaling=strong",
    ]
    assert ["(weak scaling)" in words(picture.figure) for picture in found] == [True, False]
    assert ["(strong scaling)" in words(picture.figure) for picture in found] == [False, True]


def test_each_machine_has_a_picture_of_its_own(second_machine: Machine):
    fill("results.db", [(resnet(), 100.0)])
    fill("results.db", [(resnet(), 50.0)], name="second", machine=second_machine)
    found = pictures("scaling")
    assert [curves(picture.figure)["replicated_none"][1] for picture in found] == [[100.0], [50.0]]
    assert [picture.name[:17] for picture in found] == ["resnet50-testbox-", "resnet50-otherbox"]


def test_nothing_but_failures_is_nothing_to_show():
    fill("results.db", [(resnet(), None)])
    with pytest.raises(NothingToShow, match="no trial completed"):
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
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    assert (low, high) == (pytest.approx(90, rel=0.15), pytest.approx(430, rel=0.15))
    bars = axes.collections[2].get_segments()[0]  # type: ignore[attr-defined]
    assert [y for _, y in bars] == pytest.approx([low, high])
    arrows = [
        (line.get_marker(), list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.lines
        if line.get_label() == "_beyond"
    ]  # type: ignore[arg-type]
    assert arrows == [(CARETDOWN, [4], [pytest.approx(low)]), (CARETUP, [4], [pytest.approx(high)])]
    assert "arrowheads: the interval reaches beyond the picture" in words(figure)


def test_arrowheads_end_above_the_failures():
    fill(
        "results.db",
        [(resnet(), 250.0), (resnet(), 400.0), (resnet(1), 300.0), (resnet(1, num_gpus=2), None)],
    )
    axes = picture("scaling").axes[0]
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
    assert "ideal: replicated_none on 1, the best there, times N" in words(figure)


def test_repeats_without_a_number_are_reported():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(), None), (resnet(num_gpus=2), 150.0)],
        details=[{}, {"outcome": Outcome.OUT_OF_MEMORY}, {}],
    )
    figure = picture("scaling")
    (ring,) = [line for line in figure.axes[0].lines if line.get_label() == "_partly"]
    assert list(ring.get_xdata()) == [1]  # type: ignore[arg-type]
    assert "ringed: some repeats brought no number: replicated_none x 1 (1 of 2: OOM)" in words(
        figure
    )

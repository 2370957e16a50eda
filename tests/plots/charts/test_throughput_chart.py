"""Grouped bars: each is the number of the database with its speed-up on it, or what became of it."""

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.pictures.drawing import NothingToShow
from plots.pictures.theme import Theme
from scalemark.records.outcomes import Outcome, Verdict
from tests.filled import fill
from tests.plots.charts.charting import (
    STRATEGIES,
    checked,
    details,
    picture,
    picture_test,
    pictures,
    resnet,
    words,
)
from tests.specs import small

MODELS = ("alexnet", "inception3", "resnet152", "resnet18_cifar", "vgg16")


def fill_with(
    num_strategies: int, models: tuple[str, ...] = MODELS, gpus: tuple[int, ...] = (1, 4)
) -> None:
    """Two repeats each; the lead changes with the model and with the GPUs, and the second strategy runs out of memory on vgg16."""
    results, details = [], []
    for index in range(num_strategies):
        for nth, model in enumerate(models):
            for num_gpus in gpus:
                fits = not (index == 1 and model == "vgg16" and num_gpus == gpus[-1])
                speed_up = num_gpus ** (0.6 + 0.05 * ((index + 2 * nth) % 5))
                for repeat in range(2):
                    throughput = 100 * (nth + 1) * speed_up * 0.99**index * 1.01**repeat
                    results.append(
                        (
                            small(model=model, num_gpus=num_gpus, **STRATEGIES[index]),
                            throughput if fits else None,
                        )
                    )
                    details.append({} if fits else {"outcome": Outcome.OUT_OF_MEMORY})
    fill("results.db", results, details=details)


@pytest.mark.integration
@picture_test
@pytest.mark.parametrize("num_series", [2, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int) -> Figure:
    fill_with(num_series, MODELS[-3:], gpus=(1, 2, 4, 8))
    return checked(picture("throughput"))


@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(5, MODELS[-1:], gpus=(1, 2, 4, 8))
    return checked(picture("throughput", Theme.DARK))


@pytest.mark.integration
@picture_test
def test_the_picture_of_bars_too_narrow_for_their_labels() -> Figure:
    fill_with(12, ("vgg16",), (1, 2, 4, 8, 16, 32, 64))
    return checked(picture("throughput"))


def bars(axes: Axes) -> dict[str, float]:
    """By strategy and count their heights."""
    return {str(bar.get_label()): bar.patches[0].get_height() for bar in axes.containers}


def labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_bars_are_numbers_of_the_database_with_their_speed_ups():
    fill(
        "results.db",
        [
            *((resnet(), 100.0), (resnet(num_gpus=2), 180.0)),
            *((resnet(1), 50.0), (resnet(1, num_gpus=2), 60.0)),
        ],
    )
    figure = picture("throughput")
    (axes,) = figure.axes
    heights = {
        "ps_cpu x 1": 50.0,
        "ps_cpu x 2": 60.0,
        "replicated_none x 1": 100.0,
        "replicated_none x 2": 180.0,
    }
    assert bars(axes) == heights
    assert sorted(labels(axes)) == ["1.0x", "1.0x", "1.2x", "1.8x"]
    assert "on the bars: times its own on 1 CPU device" in words(figure)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2"]


def test_each_model_has_a_panel_and_axes_of_its_own():
    shown = [small(model=model, num_gpus=num) for model in ("alexnet", "vgg16") for num in (1, 2)]
    fill("results.db", [(spec, 100.0 if spec.model == "vgg16" else 900.0) for spec in shown])
    figure = picture("throughput")
    assert [max(bars(axes).values()) for axes in figure.axes] == [900.0, 100.0]
    assert [axes.get_ylim()[1] for axes in figure.axes] == [
        pytest.approx(900, rel=0.4),
        pytest.approx(100, rel=0.4),
    ]
    assert {"alexnet", "vgg16"} <= set(words(figure).split("\n"))


def test_many_models_have_a_second_picture():
    names = [f"model_{index}" for index in range(8)]
    fill("results.db", [(small(model=name), 10.0) for name in names])
    found = pictures("throughput")
    assert [(one.name, len(one.figure.axes)) for one in found] == [("", 6), ("2", 2)]


def test_whiskers_are_the_intervals_of_the_database():
    fill("results.db", [(resnet(), 100.0), (resnet(1), 200.0)])  # one process each: 5 % within it
    (axes,) = picture("throughput").axes
    whiskers = [list(line.get_ydata()) for line in axes.lines if line.get_gid() == "interval"]
    assert whiskers == [pytest.approx([190, 210]), pytest.approx([95, 105])]  # ps_cpu first


def test_a_whisker_that_is_cut_off_ends_in_an_arrowhead():
    """Two repeats of 250 and 400 images/s: 95 % of such means lie anywhere between 16 and 6264."""
    fill("results.db", [(resnet(), 250.0), (resnet(), 400.0), (resnet(1), 300.0)])
    figure = picture("throughput")
    (axes,) = figure.axes
    (arrow,) = [line for line in axes.lines if line.get_gid() == "beyond"]
    assert axes.get_ylim()[1] > arrow.get_ydata()[0] > 316  # type: ignore[operator,index]
    assert "arrowheads: wider" in words(figure)


def test_a_whisker_is_drawn_in_full_where_the_panel_has_room_for_it():
    """A bug: it was cut off at 1.25 times its bar, though a faster bar had the axis reach further."""
    fill("results.db", [(resnet(), 950.0), (resnet(1), 450.0), (resnet(1), 500.0)])
    (axes,) = picture("throughput").axes
    ends = [line.get_ydata()[1] for line in axes.lines if line.get_gid() == "interval"]
    assert min(ends) > 900  # type: ignore[type-var]
    assert not [line for line in axes.lines if line.get_gid() == "beyond"]


def test_numbers_beside_the_axis_are_whole_and_few_bars_fill_the_width():
    """A bug: of 1,000 the first digit was cut off, as bars alone did not reach it."""
    fill(
        "results.db", [(resnet(), 890.0), (resnet(), 960.0), (resnet(), 925.0), (resnet(1), 700.0)]
    )
    figure = picture("throughput")
    (axes,) = figure.axes
    figure.canvas.draw()
    names = [one for one in axes.get_yticklabels() if one.get_text()]
    assert "1,000" in [one.get_text() for one in names]
    assert min(one.get_window_extent().x0 for one in names) >= 0
    assert axes.get_position().x1 > 0.95


def test_what_did_not_complete_is_named_in_its_place():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(num_gpus=2), 150.0), (resnet(1), 90.0), (resnet(1, 2), None)],
        details=[{}, {}, {}, {"outcome": Outcome.HUNG}],
    )
    (axes,) = picture("throughput").axes
    (hang,) = [text for text in axes.texts if text.get_text() == "HANG"]
    assert hang.get_position()[1] == 0
    assert "ps_cpu x 2" not in bars(axes)


def test_without_anything_to_compare_with_throughputs_stand_on_the_bars():
    fill("results.db", [(resnet(num_gpus=2), 100.0), (resnet(1, num_gpus=2), 1234.0)])
    figure = picture("throughput")
    assert sorted(labels(figure.axes[0])) == ["100", "1234"]
    assert "on the bars: throughput, for there is nothing to compare with" in words(figure)


def test_doubts_are_marked_on_the_bars_and_explained_below():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(), None), (resnet(1), 90.0)],
        details=[{}, {}, {"verdict": Verdict.SUSPECT}],
    )
    figure = picture("throughput")
    assert sorted(labels(figure.axes[0])) == ["1.0x*", "1.0x†"]
    assert "*: suspect · †: failures" in words(figure)
    reported = "some repeats brought no number: replicated_none x 1 (1 of 2: FAIL)"
    assert reported in details(figure)


def test_strategies_beyond_the_colors_are_hatched():
    fill("results.db", [(resnet(index), 100.0) for index in range(12)])
    (axes,) = picture("throughput").axes
    looks = [
        (bar.patches[0].get_facecolor(), bar.patches[0].get_hatch()) for bar in axes.containers
    ]
    assert len(set(looks)) == 12


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ([(resnet(), 100.0)], "there is one number alone"),
        ([(resnet(), 100.0), (resnet(num_gpus=2), None)], "there is one number alone"),
        ([(resnet(), None), (resnet(1), None)], "no trial completed"),
    ],
)
def test_one_bar_alone_is_nothing_to_show(shown, why):
    fill("results.db", shown)
    with pytest.raises(NothingToShow, match=why):
        pictures("throughput")


def test_models_of_other_batch_sizes_are_reported():
    specs = [
        small(model=model, batch_size=batch_size, **STRATEGIES[index])
        for model, batch_size in (("alexnet", 512), ("vgg16", 64))
        for index in (0, 1)
    ]
    fill("results.db", [(spec, 100.0) for spec in specs])
    reported = words(picture("throughput"))
    assert "batch_size 512" in reported
    assert "batch_size 64" in reported

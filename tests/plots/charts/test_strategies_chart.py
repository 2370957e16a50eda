"""All strategies on all models: each cell is the number of the database, or what became of it."""

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from plots.charts.strategies import short_number
from plots.pictures.drawing import NothingToShow
from plots.pictures.theme import Theme
from scalemark.records.outcomes import Outcome
from tests.filled import fill
from tests.plots.charts.charting import STRATEGIES, checked, picture, pictures, resnet, speed, words
from tests.plots.charts.test_scaling_chart import picture_test
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
    fill_with(num_series, gpus=(4,) if num_series == 12 else (1, 4))
    return checked(picture("strategies"))


@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(5, MODELS[-2:])
    return checked(picture("strategies", Theme.DARK))


@picture_test
def test_the_picture_of_a_model_alone_has_gpu_counts_across() -> Figure:
    fill_with(5, ("vgg16",), (1, 2, 4, 8, 16, 32, 64))
    return checked(picture("strategies"))


def test_a_panel_per_gpu_count_has_throughput_and_share_of_the_best():
    fill(
        "results.db",
        [
            (resnet(index, num_gpus), 100.0 * num_gpus / (index + 1))
            for index in (0, 1)
            for num_gpus in (1, 2)
        ]
        + [(small(), 7.0)],
    )
    figure = picture("strategies")
    on_1, on_2 = figure.axes
    assert [text.get_text() for text in on_1.texts] == [
        "50\n50 %",
        "100\n100 %",
        "–",
        "7\n100 %",
    ]  # rows ps_cpu, replicated_none
    assert [text.get_text() for text in on_2.texts] == ["100\n50 %", "200\n100 %", "–", "–"]
    assert [text.get_fontweight() for text in on_1.texts] == ["normal", "bold", "normal", "normal"]
    assert "on 1 CPU device" in words(figure)
    assert "on 2 CPU devices" in words(figure)


def test_a_failed_cell_is_hatched_and_named():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(1), None)],
        details=[{}, {"outcome": Outcome.HUNG}],
    )
    (axes,) = picture("strategies").axes
    cells = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [
        (text.get_text(), cell.get_hatch()) for text, cell in zip(axes.texts, cells, strict=True)
    ] == [
        ("HANG", "////"),
        ("100\n100 %", None),
    ]


def test_the_nearer_to_the_best_the_darker_in_grey():
    fill("results.db", [(resnet(index), speed(index)) for index in range(5)])
    (axes,) = picture("strategies").axes
    shares = [int(text.get_text().split()[-2]) for text in axes.texts]
    greys = [sum(to_rgb(patch.get_facecolor()[:3])) for patch in axes.patches]
    assert [grey for _, grey in sorted(zip(shares, greys, strict=True), reverse=True)] == sorted(
        greys
    )


def test_models_of_other_batch_sizes_are_reported():
    specs = [
        small(model=model, batch_size=batch_size, **STRATEGIES[index])
        for model, batch_size in (("alexnet", 512), ("vgg16", 64))
        for index in (0, 1)
    ]
    fill("results.db", [(spec, 100.0) for spec in specs])
    reported = words(picture("strategies"))
    assert "batch_size 512" in reported
    assert "batch_size 64" in reported


def test_one_strategy_alone_is_nothing_to_show():
    fill("results.db", [(resnet(), 100.0)])
    with pytest.raises(NothingToShow, match="there is one strategy alone"):
        pictures("strategies")


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (0.523, "0.523"),
        (7.0, "7"),
        (1131.4, "1131"),
        (12345.0, "12.3k"),
        (999999.0, "1e+03k"),
        (2.5e6, "2.5M"),
    ],
)
def test_numbers_are_short(value: float, reported: str):
    assert short_number(value) == reported


def test_a_number_of_some_repeats_alone_is_marked():
    fill("results.db", [(resnet(), 100.0), (resnet(), None), (resnet(1), 90.0)])
    figure = picture("strategies")
    assert "100†" in words(figure)
    assert "†: some repeats brought no number: replicated_none x 1 (1 of 2: FAIL)" in words(figure)

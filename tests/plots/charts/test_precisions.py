"""Gains of precision and XLA: ratios and intervals are those that analysis compare gives."""

import matplotlib
import pytest
from matplotlib.figure import Figure

from analysis.results import Origin
from analysis.selection import Selection
from plots.pictures.drawing import NothingToShow, chart
from plots.pictures.theme import PALETTES, Theme, settings
from plots.source import Source
from scalemark.records.outcomes import Outcome
from scalemark.stats.welch import ratio_interval
from tests.filled import fill
from tests.plots.charts.charting import (
    checked,
    picture,
    picture_test,
    pictures,
    resnet,
    speed,
    words,
)

VARIANTS = [
    {"precision": precision, "xla": xla}
    for xla in ("off", "on", "auto")
    for precision in ("fp32", "bf16", "fp16", "tf32")
]


def fill_with(num_strategies: int, num_variants: int) -> None:
    """Two processes each, of many one; fp16 with XLA does not fit."""
    repeats = 2 if num_strategies * num_variants < 12 else 1
    shown = [
        (
            resnet(index, 2, **variant),
            None
            if variant == VARIANTS[6]
            else speed(index, 2, repeat) * (1 + 0.15 * place * 0.8**index),
        )
        for index in range(num_strategies)
        for place, variant in enumerate(VARIANTS[: num_variants + 1])
        for repeat in range(repeats)
    ]
    fill(
        "results.db",
        shown,
        details=[{} if images else {"outcome": Outcome.OUT_OF_MEMORY} for _, images in shown],
    )


@picture_test
@pytest.mark.parametrize(("num_strategies", "num_variants"), [(1, 1), (5, 2), (2, 11), (12, 1)])
def test_the_picture_with_no_text_on_another(num_strategies: int, num_variants: int) -> Figure:
    fill_with(num_strategies, num_variants)
    return checked(picture("precisions"))


@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(2, 6)
    return checked(picture("precisions", Theme.DARK))


def drawn(figure, gid):
    return [list(line.get_xdata()) for line in figure.axes[0].get_lines() if line.get_gid() == gid]


def test_ratios_are_of_geometric_means_with_intervals_over_processes():
    base, other = (100.0, 104.0), (150.0, 158.0)
    fill(
        "results.db",
        [*((resnet(), of) for of in base), *((resnet(precision="bf16"), of) for of in other)],
    )
    figure = picture("precisions")
    assert drawn(figure, "('bf16', 'off', 'none')") == [
        [pytest.approx((150 * 158 / 100 / 104) ** 0.5)]
    ]
    assert drawn(figure, "interval") == [pytest.approx(list(ratio_interval(other, base)))]


def test_published_gains_are_named_as_their_source_names_them():
    chosen = Selection(
        db="nothing.db",
        origin=Origin.PUBLISHED,
        source="NVIDIA DeepLearningExamples, TensorFlow 19.05",
    )
    of_published = Source(selection=chosen, command="python -m plots charts")
    with matplotlib.rc_context(settings(Theme.LIGHT)):
        figure = next(chart("precisions").draw(of_published, PALETTES[Theme.LIGHT])).figure
    (xla,) = drawn(figure, "('mixed+XLA',)")
    per_gpus = {
        (one.axes["precision"], one.num_gpus): one.throughput
        for one in of_published.results
        if one.environment.key == of_published.results[0].environment.key
    }
    assert xla == [
        pytest.approx(per_gpus["mixed+XLA", num] / per_gpus["fp32", num]) for num in (1, 4, 8)
    ]
    assert "mixed+XLA" in words(figure)


def test_one_process_alone_has_no_interval():
    fill("results.db", [(resnet(), 100.0), (resnet(), 104.0), (resnet(xla="on"), 150.0)])
    figure = picture("precisions")
    assert drawn(figure, "interval") == []
    assert "fp32, XLA" in words(figure)


def test_what_did_not_complete_has_its_symbol_at_the_right():
    fill(
        "results.db",
        [(resnet(), 100.0), (resnet(precision="fp16", loss_scale="128"), None)],
        details=[{}, {"outcome": Outcome.HUNG}],
    )
    (symbol,) = picture("precisions").axes[0].texts
    assert (symbol.get_text(), symbol.get_position()[0]) == ("HANG", 1)


def test_loss_scales_are_distinguished_where_there_are_two():
    shown = [
        resnet(),
        resnet(precision="fp16", loss_scale="128"),
        resnet(precision="fp16", loss_scale="dynamic"),
    ]
    fill("results.db", [(spec, 100.0) for spec in shown])
    reported = words(picture("precisions"))
    assert "fp16, loss_scale 128" in reported
    assert "fp16, loss_scale dynamic" in reported


@pytest.mark.parametrize(
    "shown",
    [
        [(resnet(), 100.0)],
        [(resnet(precision="bf16"), 100.0)],
        [(resnet(), None), (resnet(precision="bf16"), 100.0)],
        [(resnet(), 0.0), (resnet(precision="bf16"), 100.0)],
        [(resnet(), 100.0), (resnet(precision="bf16", batch_size=64), 100.0)],
    ],
)
def test_without_a_pair_that_is_else_equal_there_is_nothing_to_show(shown):
    fill("results.db", shown)
    with pytest.raises(NothingToShow, match="all else equal"):
        pictures("precisions")


def test_a_number_of_0_is_no_gain():
    fill("results.db", [(resnet(), 100.0), (resnet(precision="bf16"), 0.0)])
    (symbol,) = picture("precisions").axes[0].texts
    assert symbol.get_text() == "INVALID"


def test_machines_are_never_compared(second_machine):
    fill("results.db", [(resnet(), 100.0)])
    fill("results.db", [(resnet(precision="bf16"), 100.0)], name="second", machine=second_machine)
    with pytest.raises(NothingToShow):
        pictures("precisions")

"""Batch sizes: images/s and memory are those of the database, and what did not fit stands at its size."""

import pytest
from matplotlib.figure import Figure

from plots.pictures.drawing import NothingToShow
from plots.pictures.theme import Theme
from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome
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

SIZES = (8, 16, 32, 64, 128)


def fill_with(num_strategies: int, **axes: object) -> None:
    """Every second strategy does not fit with the largest batch, the last one not with half of it."""
    shown = [(index, size) for index in range(num_strategies) for size in SIZES]
    fails = {(index, 128) for index in range(1, num_strategies, 2)} | {
        (num_strategies - 1, 64),
        (num_strategies - 1, 128),
    }
    fill(
        "results.db",
        [
            (
                resnet(index, batch_size=size, **axes),
                None if (index, size) in fails else speed(index) * size**0.3,
            )
            for index, size in shown
        ],
        details=[
            {"outcome": Outcome.OUT_OF_MEMORY if index % 2 else Outcome.TIMED_OUT}
            if (index, size) in fails
            else {"peak_host_memory_bytes": int((1 + 0.05 * size + 0.1 * index) * 2**30)}
            for index, size in shown
        ],
    )


@picture_test
@pytest.mark.parametrize("num_series", [1, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int) -> Figure:
    fill_with(num_series)
    return checked(picture("batch_sizes"))


@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(3)
    return checked(picture("batch_sizes", Theme.DARK))


def lines(figure, axes):
    found = [
        line for line in figure.axes[axes].get_lines() if line.get_label().startswith("replicated")
    ]
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in found}


def test_points_are_those_of_the_database():
    shown = [
        (resnet(batch_size=8), 100.0),
        (resnet(batch_size=8), 120.0),
        (resnet(batch_size=32), 300.0),
    ]
    fill(
        "results.db",
        shown,
        details=[{"peak_host_memory_bytes": size * 2**30} for size in (2, 3, 5)],
    )
    (found,) = pictures("batch_sizes")
    assert lines(found.figure, 0) == {
        "replicated_none": ([8, 32], [pytest.approx(12_000**0.5), 300.0])
    }
    assert lines(found.figure, 1) == {"replicated_none": ([8, 32], [3.0, 5.0])}
    assert "peak host memory: of the repeats the largest" in found.about
    assert "peak host memory, GiB" in words(found.figure)


def test_device_memory_goes_before_the_hosts():
    fill(
        "results.db",
        [(resnet(batch_size=size, device_kind=DeviceKind.GPU), 100.0) for size in (8, 32)],
        details=[{"peak_device_memory_bytes": size * 2**30} for size in (2, 7)],
    )
    figure = picture("batch_sizes")
    assert lines(figure, 1) == {"replicated_none": ([8, 32], [2.0, 7.0])}
    assert "batch sizes on 1 GPU" in words(figure)


def test_what_did_not_fit_stands_at_its_size():
    fill(
        "results.db",
        [(resnet(batch_size=8), 100.0), (resnet(batch_size=32), None)],
        details=[{}, {"outcome": Outcome.OUT_OF_MEMORY}],
    )
    (symbol,) = picture("batch_sizes").axes[0].texts
    assert (symbol.get_text(), symbol.get_position()[0]) == ("OOM", 32)


def test_numbers_of_devices_are_pictures_of_their_own():
    fill(
        "results.db",
        [(resnet(0, num_gpus, batch_size=size), 100.0) for num_gpus in (1, 2) for size in (8, 32)],
    )
    assert ["on 1 CPU device" in words(one.figure) for one in pictures("batch_sizes")] == [
        True,
        False,
    ]


@pytest.mark.parametrize("shown", [[(8, 100.0)], [(8, None), (16, None)], [(8, 0.0), (16, 0.0)]])
def test_without_two_sizes_and_a_number_there_is_nothing_to_show(shown):
    fill(
        "results.db",
        [(resnet(batch_size=size), throughput) for size, throughput in shown],
    )
    with pytest.raises(NothingToShow, match="no model ran with two batch sizes"):
        pictures("batch_sizes")


def test_a_size_without_a_number_is_left_out_of_the_line():
    fill(
        "results.db",
        [
            (resnet(batch_size=8), 100.0),
            (resnet(batch_size=16), 0.0),
            (resnet(batch_size=32), 150.0),
        ],
    )
    assert lines(picture("batch_sizes"), 0) == {"replicated_none": ([8, 32], [100.0, 150.0])}


def test_strong_scaling_is_drawn_by_the_batch_of_each_device_and_says_so():
    fill(
        "results.db",
        [(resnet(0, 2, batch_size=size, scaling="strong"), 10.0 * size) for size in (8, 16)],
    )
    figure = picture("batch_sizes")
    assert lines(figure, 0) == {"replicated_none": ([8, 16], [80.0, 160.0])}
    assert "batch sizes on 2 CPU devices (strong scaling)" in words(figure)

"""Then and now: our numbers beside the closest published ones, each with its source."""

import pytest
from matplotlib.figure import Figure

from plots.pictures.drawing import NothingToShow
from plots.pictures.theme import Theme
from scalemark.records.devices import DeviceKind
from scalemark.records.references import published as known
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

ON_GPUS = {"device_kind": DeviceKind.GPU}


def fill_with(num_strategies: int, **axes: object) -> None:
    fill(
        "results.db",
        [
            (resnet(index, num_gpus, batch_size=64, **ON_GPUS | axes), speed(index, num_gpus))
            for index in range(num_strategies)
            for num_gpus in (1, 2)
        ],
    )


@pytest.mark.integration
@picture_test
@pytest.mark.parametrize("num_series", [1, 5, 12])
def test_the_picture_with_no_text_on_another(num_series: int) -> Figure:
    fill_with(num_series)
    return checked(picture("then_and_now"))


@picture_test
def test_the_picture_in_the_dark() -> Figure:
    fill_with(2)
    return checked(picture("then_and_now", Theme.DARK))


def lines(figure):
    found = [line for line in figure.axes[0].get_lines() if line.get_label()[:1] not in ("", "_")]
    return {
        line.get_label(): dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for line in found
    }


def test_ours_come_first_then_the_closest_published_curves():
    fill(
        "results.db",
        [(resnet(1, num, batch_size=64, **ON_GPUS), 50.0 * num) for num in (1, 2)],
    )
    found = lines(picture("then_and_now"))
    assert next(iter(found)) == "ours: ps_cpu, weak scaling"
    assert found["ours: ps_cpu, weak scaling"] == {1: 50.0, 2: 100.0}
    dgx = {
        of.num_gpus: of.throughput
        for of in known()
        if (of.source, of.model, of.batch_size, of.data)
        == ("TensorFlow benchmarks page (2017)", "resnet50", 64, "synthetic")
        and "DGX-1" in of.hardware
    }
    assert len(dgx) == 4
    reported = "TensorFlow benchmarks page (2017), NVIDIA DGX-1 8xP100-SXM2 NVLink: ps_cpu, batch 64, fp32, synthetic data"
    assert found[reported] == dgx
    assert all("batch 64, fp32, synthetic data" in name for name in list(found)[1:])


def test_what_is_left_out_is_reported():
    fill_with(5)
    (found,) = pictures("then_and_now")
    assert len(lines(found.figure)) == 6
    reported = "\n".join(found.about)
    assert "ours: 2 of 5 strategies, the fastest; see another with strategy=NAME" in reported
    assert "see all with python -m store reference list model=resnet50" in reported
    assert "published figures are of other hardware" in reported


def test_cpu_devices_do_not_stand_beside_gpus_of_others():
    fill_with(1, device_kind=DeviceKind.CPU_DEVICE)
    with pytest.raises(NothingToShow, match="CPU devices say nothing beside published ones"):
        pictures("then_and_now")


def test_strong_scaling_says_so_beside_figures_of_weak_scaling():
    fill_with(1, scaling="strong")
    assert "ours: replicated_none, strong scaling" in lines(pictures("then_and_now")[0].figure)


def test_our_failures_stand_at_their_number_of_devices():
    both = (resnet(**ON_GPUS), 100.0), (resnet(num_gpus=2, **ON_GPUS), None)
    fill("results.db", list(both))
    assert [
        (text.get_text(), text.get_position()[0]) for text in picture("then_and_now").axes[0].texts
    ] == [("FAIL", 2)]


@pytest.mark.parametrize(
    "shown",
    [
        [(resnet(), None)],
        [(resnet(), 0.0)],
        [(resnet(model="nobody_published_it", device_kind=DeviceKind.GPU), 100.0)],
    ],
)
def test_without_a_number_of_both_there_is_nothing_to_show(shown):
    fill("results.db", shown)
    with pytest.raises(NothingToShow, match="of no model there is both"):
        pictures("then_and_now")


def test_published_figures_alone_are_not_then_and_now(published):
    with pytest.raises(NothingToShow):
        pictures("then_and_now", origin=published)


def test_images_of_another_size_are_reported():
    fill_with(1)
    assert "Ours at 64 px, where 224 px are usual: another amount of work per image." in words(
        picture("then_and_now")
    )
    fill_with(1, image_px=224)
    reported = [
        words(found.figure) for found in pictures("then_and_now", filters=("image_px=224",))
    ]
    assert [("usual" in of) for of in reported] == [False]

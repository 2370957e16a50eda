"""Networks counted layer by layer have the sizes that are published of them."""

import csv
from pathlib import Path

import pytest

import store
from scalemark import models
from simulator.costs.networks import UnknownNetworkError, network


@pytest.mark.parametrize(
    (
        "model",
        "num_parameters",
        "num_tensors",
        "num_small",
        "largest",
        "forward_gflop",
    ),
    [
        ("alexnet", 61_842_345, 16, 6, 37_748_736, 1.678),
        ("vgg16", 138_361_641, 32, 15, 102_760_448, 30.94),
        ("inception3", 23_819_401, 190, 96, 2_050_048, 11.43),
        ("resnet50", 25_559_081, 161, 107, 2_359_296, 7.716),
        ("resnet50_v1.5", 25_559_081, 161, 107, 2_359_296, 8.178),
        ("resnet101", 44_551_209, 314, 209, 2_359_296, 15.14),
        ("resnet152", 60_194_857, 467, 311, 2_359_296, 22.56),
        ("resnet18_cifar", 701_466, 62, 49, 147_456, 0.070),
    ],
)
def test_a_network_has_its_known_sizes(
    model, num_parameters, num_tensors, num_small, largest, forward_gflop
):
    counted = network(model)
    assert (counted.num_parameters, len(counted.tensors), max(counted.tensors)) == (
        num_parameters,
        num_tensors,
        largest,
    )
    assert sum(size < 4096 for size in counted.tensors) == num_small
    assert counted.forward_flops / 1e9 == pytest.approx(forward_gflop, rel=1e-3, abs=5e-4)


@pytest.mark.parametrize(
    ("model", "num_classes", "num_parameters"),
    [
        ("resnet18", 1000, 11_689_512),
        ("resnet34", 1000, 21_797_672),
        ("vgg11", 1000, 132_863_336),
        ("vgg13", 1000, 133_047_848),
        ("vgg19", 1000, 143_667_240),
        ("densenet121", 1000, 7_978_856),
        ("mobilenet_v1", 1000, 4_231_976),
        ("resnet20_cifar", 10, 269_722),
        ("resnet32_cifar", 10, 464_154),
        ("resnet44_cifar", 10, 658_586),
        ("resnet56_cifar", 10, 853_018),
        ("resnet110_cifar", 10, 1_727_962),
        ("googlenet", 1001, 6_999_577),
        ("overfeat", 1001, 145_924_969),
    ],
)
def test_others_have_the_parameters_that_their_implementations_count(
    model, num_classes, num_parameters
):
    assert network(model, num_classes=num_classes).num_parameters == num_parameters


def test_every_named_model_of_the_published_figures_is_known():
    with (Path(store.__file__).parent / "published" / "throughput.csv").open() as lines:
        models = {row["model"].rstrip("?") for row in csv.DictReader(lines)}
    unknown = set()
    for model in models:
        try:
            network(model)
        except UnknownNetworkError:
            unknown.add(model)
    assert unknown == {"resnet"}


def test_an_unknown_name_guesses():
    with pytest.raises(
        UnknownNetworkError,
        match=r"model=resnet51: .*; did you mean resnet50\?",
    ):
        network("resnet51")


def test_an_image_too_small_for_the_network_is_refused():
    with pytest.raises(
        ValueError,
        match="image_px=20: alexnet needs at least 67",
    ):
        network("alexnet", 20)


def test_a_larger_image_is_more_work_for_the_same_convolutions():
    small, large = network("resnet50", 224), network("resnet50", 448)
    assert small.tensors == large.tensors
    assert large.forward_flops / small.forward_flops == pytest.approx(4, rel=0.01)


def test_the_early_stride_of_version_1_is_less_work():
    assert network("resnet50").forward_flops < network("resnet50_v1.5").forward_flops


def test_operations_are_counted_from_the_layers():
    """Three affine layers: 4 + 5 + 5 with two ReLUs each way, and the loss."""
    assert network("trivial").num_operations == 4 + 5 + 5 + 2 * 2 + 8


def test_a_network_is_counted_once():
    assert network("resnet152") is network("resnet152")
    assert network("resnet50", num_classes=10) is not network("resnet50")


def test_every_known_network_of_images_has_classes_at_its_end():
    for name in models.definitions():
        if not network(name).seq_len:
            assert network(name).tensors[-1] == models.published_sizes(name)["num_classes"], name

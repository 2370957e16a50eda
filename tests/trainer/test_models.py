"""Models have the parameter counts of the published ones."""

import keras
import numpy as np
import pytest

import costs.networks
from trainer import registry
from trainer.errors import UnsupportedTrialError

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("model", "image_px", "num_classes", "num_parameters", "num_gradients"),
    [
        ("alexnet", 227, 1001, 61_842_345, 16),
        ("vgg16", 224, 1001, 138_361_641, 32),
        ("inception3", 299, 1001, 23_819_401, 190),
        ("resnet50", 224, 1001, 25_559_081, 161),
        ("resnet152", 224, 1001, 60_194_857, 467),
        ("resnet18_cifar", 32, 10, 701_466, 62),
        ("trivial", 32, 10, 32 * 32 * 3 + 1 + 2 * 4096 + 4096 * 10 + 10, 6),
    ],
)
def test_a_model_has_its_published_number_of_parameters_and_gradient_tensors(
    all_devices, model, image_px, num_classes, num_parameters, num_gradients
):
    keras.mixed_precision.set_global_policy("float32")
    built = registry.load("models", model).build(image_px, num_classes)
    sizes = tuple(int(np.prod(variable.shape)) for variable in built.trainable_variables)
    assert sum(sizes) == num_parameters
    assert len(sizes) == num_gradients
    assert (
        costs.networks.network(model, image_px, num_classes).tensors == sizes
    )  # in this order devices are dealt tensors
    assert built.output_shape == (None, num_classes)


def test_the_stride_of_a_version_1_block_is_in_its_first_convolution(all_devices):
    built = registry.load("models", "resnet50").build(64, 10)
    strided = [
        layer
        for layer in built.layers
        if isinstance(layer, keras.layers.Conv2D) and layer.strides == (2, 2)
    ]
    assert {layer.kernel_size for layer in strided} == {(7, 7), (1, 1)}


def test_an_unknown_name_lists_the_files_there_are():
    with pytest.raises(
        UnsupportedTrialError,
        match=r"'resnet51' is not in trainer/models/; choose one of alexnet, .*vgg16",
    ):
        registry.load("models", "resnet51")

"""Models have the parameter counts of the published ones."""

import keras
import numpy as np
import pytest

from scalemark.models import define, published_sizes
from simulator.costs.networks import count, network
from tests.specs import small
from trainer import UnsupportedTrialError, keras_model, run

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
def test_a_model_has_its_published_parameters_and_gradients(
    all_devices, model, image_px, num_classes, num_parameters, num_gradients
):
    built = keras_model.build(define(model, image_px=image_px, num_classes=num_classes))
    sizes = tuple(int(np.prod(variable.shape)) for variable in built.trainable_variables)
    assert sum(sizes) == num_parameters
    assert len(sizes) == num_gradients
    assert sorted(network(model, image_px, num_classes).tensors) == sorted(sizes)
    assert built.output_shape == (None, num_classes)


@pytest.mark.parametrize(
    ("model", "num_parameters", "num_gradients", "recompute"),
    [
        ("gpt2", 124_439_808, 148, False),
        ("bert_base", 109_514_298, 154, False),  # with the masked language model's head
        ("bert_large", 335_174_458, 298, False),
        ("vit_b16", 86_567_656, 152, True),
        ("bert_tiny", 512_384, 34, False),
        ("bert_tiny", 512_384, 34, True),
    ],
)
def test_a_transformer_has_its_published_parameters(
    all_devices, model, num_parameters, num_gradients, recompute
):
    seq_len = 32 if "seq_len" in published_sizes(model) else None
    built = keras_model.build(define(model, seq_len=seq_len), recompute=recompute)
    sizes = tuple(int(np.prod(variable.shape)) for variable in built.trainable_variables)
    assert sum(sizes) == num_parameters
    assert len(sizes) == num_gradients
    assert sorted(count(define(model, seq_len=seq_len)).tensors) == sorted(sizes)


@pytest.mark.parametrize(
    "model",
    [
        *("densenet121", "googlenet", "inception4", "lenet5", "mobilenet_v1", "overfeat"),
        *("resnet18", "resnet20_cifar", "resnet50_v1.5"),
    ],
)
def test_keras_has_the_gradient_tensors_that_the_cost_model_counts(all_devices, model):
    built = keras_model.build(define(model, image_px=96, num_classes=7))
    sizes = tuple(int(np.prod(variable.shape)) for variable in built.trainable_variables)
    assert sorted(network(model, 96, 7).tensors) == sorted(sizes)


def test_the_stride_of_a_version_1_block_is_in_its_first_convolution(all_devices):
    built = keras_model.build(define("resnet50", image_px=64, num_classes=10))
    strided = [
        layer
        for layer in built.layers
        if isinstance(layer, keras.layers.Conv2D) and layer.strides == (2, 2)
    ]
    assert {layer.kernel_size for layer in strided} == {(7, 7), (1, 1)}


def test_a_trial_of_an_unknown_model_lists_those_there_are(make_devices):
    with pytest.raises(
        UnsupportedTrialError,
        match=r"model=resnet51: no file in scalemark/models/ defines it; defined are alexnet, .*vgg19",
    ):
        run.build(small(model="resnet51"), make_devices(1))


def test_a_trial_of_too_small_an_image_says_what_is_large_enough(make_devices):
    with pytest.raises(UnsupportedTrialError, match="image_px=20: alexnet needs at least 67"):
        run.build(small(model="alexnet", image_px=20), make_devices(1))

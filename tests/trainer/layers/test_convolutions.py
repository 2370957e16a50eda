"""Layers of ours give what those of Keras give that they stand for, forward and backward."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from scalemark.models import define
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from tests.specs import small
from trainer import keras_model, run
from trainer.convolutions import ConvolutionByProduct, DenseByProduct, SpaceToDepthConvolution
from trainer.keras_model import Kernels


def outputs_and_gradients(layer, images, upstream):
    """Return what it computes, and gradients of its weights and of the images."""
    with tf.GradientTape() as tape:
        tape.watch(images)
        outputs = layer(images)
    weights = layer.trainable_weights
    found = tape.gradient(outputs, [*weights, images], upstream)
    return [values.numpy() for values in (outputs, *found)]


def assert_alike(ours, keras_own, inputs):
    shape = keras_own(inputs).shape
    upstream = np.random.default_rng(8).normal(size=shape).astype("float32")
    ours.build(inputs.shape)
    ours.set_weights(keras_own.get_weights())
    found = outputs_and_gradients(ours, inputs, upstream)
    wanted = outputs_and_gradients(keras_own, inputs, upstream)
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("px", "size", "stride", "padding"),
    [
        (24, 7, 2, "same"),  # the stem of ResNets
        (23, 7, 2, "same"),
        (24, 7, 2, "valid"),
        (43, 11, 4, "valid"),  # AlexNet's
        (44, 11, 4, "valid"),  # the last pixel is in no window
        (7, 7, 2, "valid"),  # one window
    ],
)
def test_a_rearranged_stem_computes_what_keras_does(px, size, stride, padding):
    random = np.random.default_rng(7)
    images = tf.constant(random.normal(size=(2, px, px + 8, 3)), tf.float32)
    given = {"activation": "relu", "bias_initializer": "ones"}
    ours = SpaceToDepthConvolution(5, size, stride, padding, **given)
    assert_alike(ours, keras.layers.Conv2D(5, size, stride, padding, **given), images)


def stem(spec: TrialSpec, make_devices) -> keras.layers.Layer:
    model = run.build(spec, make_devices(1)).template.model
    return next(layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D))


@pytest.mark.parametrize(
    ("model", "xla", "data_format", "is_rearranged"),
    [
        ("resnet18", "on", "NHWC", True),
        ("resnet18", "off", "NHWC", False),
        ("resnet18", "on", "NCHW", False),
        ("resnet18_cifar", "on", "NHWC", False),  # its kernel is 3 x 3, without strides
        ("vit_b16", "on", "NHWC", False),  # its patches do not overlap
    ],
)
def test_it_is_the_stem_where_xla_compiles_it(make_devices, model, xla, data_format, is_rearranged):
    spec = small(model=model, image_px=32, xla=xla, data_format=data_format)
    assert isinstance(stem(spec, make_devices), SpaceToDepthConvolution) == is_rearranged


def test_initial_weights_are_the_same_for_all_kernels():
    first = {}
    for kernels in Kernels:
        keras.utils.set_random_seed(3)
        model = keras_model.build(define("resnet18", image_px=32), kernels=kernels)
        first[kernels] = model.get_weights()
    for kernels in (Kernels.XLA, Kernels.CPU):
        for mine, theirs in zip(first[kernels], first[Kernels.ANY], strict=True):
            assert np.array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("shape", "size", "stride", "padding", "is_product"),
    [
        ((2, 4, 6, 5), 1, 1, "same", True),
        ((2, 24, 24, 3), 1, 1, "valid", True),  # more rows than are multiplied backward
        ((2, 5, 7, 3), 1, 2, "same", True),
        ((2, 32, 32, 3), 1, 2, "same", False),
        ((2, 4, 4, 3), 3, 1, "same", True),
        ((2, 5, 4, 3), 3, 2, "same", True),
        ((2, 6, 6, 3), 3, 1, "valid", True),
        ((2, 5, 5, 3), 3, 1, "same", False),
        ((1, 4, 4, 3), (1, 3), 1, "same", False),
    ],
)
def test_a_convolution_of_cpu_devices_computes_what_keras_does(
    shape, size, stride, padding, is_product
):
    images = tf.constant(np.random.default_rng(7).normal(size=shape), tf.float32)
    given = {"activation": "relu", "bias_initializer": "ones"}
    ours = ConvolutionByProduct(40, size, stride, padding, **given)
    assert_alike(ours, keras.layers.Conv2D(40, size, stride, padding, **given), images)
    graph = tf.function(ours).get_concrete_function(images).graph
    assert ("Conv2D" in {op.type for op in graph.get_operations()}) != is_product


@pytest.mark.parametrize("shape", [(3, 5), (3, 50), (2, 7, 5), (1100, 5)])
def test_a_dense_layer_of_cpu_devices_computes_what_keras_does(shape):
    inputs = tf.constant(np.random.default_rng(7).normal(size=shape), tf.float32)
    given = {"activation": "tanh", "bias_initializer": "ones"}
    assert_alike(DenseByProduct(40, **given), keras.layers.Dense(40, **given), inputs)


@pytest.mark.parametrize(
    ("settings", "are_products"),
    [
        ({}, True),
        ({"xla": "on"}, False),
        ({"data_format": "NCHW"}, False),
        ({"precision": "bf16"}, False),
    ],
)
def test_layers_of_cpu_devices_are_products_in_float32(make_devices, settings, are_products):
    spec = small(model="resnet18", image_px=32, **settings)
    assert isinstance(stem(spec, make_devices), ConvolutionByProduct) == are_products


@pytest.mark.parametrize("settings", [{"device_kind": DeviceKind.GPU}, {"xla": "auto"}])
def test_layers_of_gpus_and_of_clusters_are_those_of_keras(settings):
    assert Kernels.of(small(**settings)) is Kernels.ANY

"""Convolution after space to depth gives what Keras' own layer gives, forward and backward."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from scalemark.models import define
from scalemark.records.trial import TrialSpec
from tests.specs import small
from trainer import keras_model, run
from trainer.image_layers import SpaceToDepthConvolution


def outputs_and_gradients(layer, images, upstream):
    """Return what it computes, and gradients of its weights and of the images."""
    with tf.GradientTape() as tape:
        tape.watch(images)
        outputs = layer(images)
    weights = layer.trainable_weights
    found = tape.gradient(outputs, [*weights, images], upstream)
    return [values.numpy() for values in (outputs, *found)]


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
def test_numbers_are_those_of_keras(px, size, stride, padding):
    random = np.random.default_rng(7)
    images = tf.constant(random.normal(size=(2, px, px + 8, 3)), tf.float32)
    given = {"activation": "relu", "bias_initializer": "ones"}
    usual = keras.layers.Conv2D(5, size, stride, padding, **given)
    upstream = random.normal(size=usual(images).shape).astype("float32")
    rearranged = SpaceToDepthConvolution(5, size, stride, padding, **given)
    rearranged.build(images.shape)
    rearranged.set_weights(usual.get_weights())
    found = outputs_and_gradients(rearranged, images, upstream)
    wanted = outputs_and_gradients(usual, images, upstream)
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4, abs=1e-4)


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


def test_initial_weights_are_the_same_with_xla():
    first = {}
    for compiled in (False, True):
        keras.utils.set_random_seed(3)
        model = keras_model.build(define("resnet18", image_px=32), compiled=compiled)
        first[compiled] = model.get_weights()
    for mine, theirs in zip(first[True], first[False], strict=True):
        assert np.array_equal(mine, theirs)

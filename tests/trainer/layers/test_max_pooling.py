"""Max pooling for XLA gives what TensorFlow's gives, forward and backward, also of equal numbers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from scalemark.models import define
from tests.specs import small
from trainer import keras_model, run
from trainer.image_layers import MaxPooling


def pooled(layer, images: np.ndarray, upstream: np.ndarray | None = None):
    """Return the maxima, and the gradient of the images."""

    @tf.function(jit_compile=True, autograph=False)
    def both(images):
        with tf.GradientTape() as tape:
            tape.watch(images)
            maxima = layer(images)
        given = tf.ones_like(maxima) if upstream is None else tf.constant(upstream)
        return maxima, tape.gradient(maxima, images, given)

    return [found.numpy() for found in both(tf.constant(images))]


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(("size", "stride"), [(3, 2), (3, 1), (2, 2), (2, 3), (1, 2)])
def test_maxima_and_gradients_are_tensorflows(size, stride, padding):
    random = np.random.default_rng(7)
    # many are 0, as behind a ReLU
    images = np.maximum(random.normal(size=(2, 13, 10, 3)), 0).astype("float32")
    usual = keras.layers.MaxPooling2D(size, stride, padding)
    upstream = random.normal(size=usual(images).shape).astype("float32")
    maxima, gradient = pooled(MaxPooling(size, stride, padding), images, upstream)
    wanted_maxima, wanted_gradient = pooled(usual, images, upstream)
    assert np.array_equal(maxima, wanted_maxima)
    assert gradient == pytest.approx(wanted_gradient, abs=1e-6)


def test_channels_may_come_first():
    images = np.random.default_rng(7).normal(size=(2, 3, 9, 8)).astype("float32")
    last = pooled(MaxPooling(3, 2, "same"), np.moveaxis(images, 1, 3))
    keras.config.set_image_data_format("channels_first")
    try:
        first = pooled(MaxPooling(3, 2, "same"), images)
    finally:
        keras.config.set_image_data_format("channels_last")
    for found, wanted in zip(first, last, strict=True):
        assert np.array_equal(found, np.moveaxis(wanted, 3, 1))


@pytest.mark.parametrize("xla", ["off", "on"])
def test_models_have_it_where_xla_compiles_them(make_devices, xla):
    training = run.build(small(model="lenet5", xla=xla), make_devices(1))
    found = [type(layer) for layer in training.template.model.layers]
    assert (MaxPooling in found) == (xla == "on")
    assert (keras.layers.MaxPooling2D in found) == (xla == "off")


def test_a_model_of_another_layer_has_as_many_outputs():
    logits = define("resnet50", image_px=65, num_classes=10)
    assert (
        keras_model.build(logits, kernels=keras_model.Kernels.XLA).output_shape
        == keras_model.build(logits).output_shape
    )

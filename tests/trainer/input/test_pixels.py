"""Images cross to the devices as bytes, and the tower makes of them what the model takes."""

import numpy as np
import pytest
import tensorflow as tf

from tests.specs import small
from trainer import image_records, model_tower
from trainer.data import digits
from trainer.run import build


def test_bytes_become_numbers_from_minus_1_to_1(all_devices):
    found = model_tower.normalized(tf.constant([0, 51, 255], tf.uint8), "float32")
    assert found.dtype == tf.float32
    assert found.numpy() == pytest.approx([-1, -0.6, 1], rel=0, abs=1e-7)
    assert found.numpy()[[0, 2]].tolist() == [-1, 1]


@pytest.mark.parametrize(("dtype", "wanted"), [("float32", "float32"), ("uint8", "uint8")])
def test_what_a_model_takes_as_it_comes_is_left_alone(all_devices, dtype, wanted):
    inputs = tf.constant([7], dtype)
    assert model_tower.normalized(inputs, wanted) is inputs


def test_pixels_are_rounded_to_the_nearest(all_devices):
    found = image_records.as_bytes(tf.constant([0.0, 0.4, 0.6, 254.6, 255.0]))
    assert found.numpy().tolist() == [0, 0, 1, 255, 255]


def test_an_image_crosses_as_three_bytes_per_pixel(make_devices):
    devices = make_devices(2)
    data = digits.open_input(small(data="digits", num_gpus=2, batch_size=5), devices)
    for images, labels in data.next():
        assert images.shape.num_elements() * images.dtype.size == 5 * 32 * 32 * 3
        assert labels.shape.num_elements() * labels.dtype.size == 5 * 8


@pytest.mark.parametrize("gradient_accumulation", [1, 2])
def test_a_step_on_bytes_is_the_step_on_the_same_numbers(make_devices, gradient_accumulation):
    spec = small(gradient_accumulation=gradient_accumulation)
    draws = np.random.default_rng(1)
    images = draws.integers(0, 256, (spec.examples_per_replica, 32, 32, 3)).astype(np.uint8)
    labels = tf.constant(draws.integers(0, 10, spec.examples_per_replica))
    found = []
    for inputs in (images, images.astype(np.float32) * np.float32(1 / 127.5) - np.float32(1)):
        training = build(spec, make_devices(1))
        loss = float(training.towers.step([(tf.constant(inputs), labels)]))
        found.append([loss, *(weights.tolist() for weights in training.update.weights(0))])
    assert found[0] == found[1]

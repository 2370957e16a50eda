"""Trains a small model in one mode.

A synchronous mode must reach the weights of one device with the whole batch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from scalemark import layers
from scalemark.records.trial import TrialSpec
from trainer import keras_model, run
from trainer.devices import Devices
from trainer.step import Batch

IMAGE_PX, NUM_CLASSES, BATCH_SIZE = 8, 5, 8  # per replica

WholeBatch = tuple[np.ndarray, np.ndarray]  # inputs and labels of all replicas together


def convolutional() -> keras.Model:
    """Build convolutions, pooling and a dense layer.

    Batch normalization and dropout would make N batches differ from one.
    """
    x = layers.images(IMAGE_PX)
    x = layers.conv(x, 4, 3)
    x = layers.conv(x, 5, 3)
    x = layers.flatten(layers.max_pool(x, 2, 2))
    return keras_model.build(layers.logits(x, NUM_CLASSES))


def normalized() -> keras.Model:
    """Build a model with batch normalization and dropout, whose state is each replica's own."""
    x = layers.images(IMAGE_PX)
    x = layers.relu(layers.conv_norm(x, 4, 3))
    x = layers.dropout(layers.flatten(x))
    return keras_model.build(layers.logits(x, NUM_CLASSES))


def whole_batches(num_replicas: int, num_steps: int) -> Iterator[WholeBatch]:
    """Yield images (N * B, H, W, 3) float32 and labels (N * B,) int64, always the same ones."""
    random = np.random.default_rng(7)
    size = num_replicas * BATCH_SIZE
    for _ in range(num_steps):
        images = random.normal(size=(size, IMAGE_PX, IMAGE_PX, 3)).astype("float32")
        yield images, random.integers(0, NUM_CLASSES, size)


def train(
    spec: TrialSpec,
    devices: Devices,
    batches: Sequence[WholeBatch],
    model: Callable[[], keras.Model] | None = convolutional,
) -> run.Training:
    """Take a step on every whole batch, split evenly over the replicas; a `model` of None is the
    one that the trial names.

    Their number must be a multiple of steps_per_execution.
    """
    return train_to_loss(spec, devices, batches, model)[0]


def train_to_loss(
    spec: TrialSpec,
    devices: Devices,
    batches: Sequence[WholeBatch],
    model: Callable[[], keras.Model] | None = convolutional,
) -> tuple[run.Training, float]:
    """Do the same as `train`, and return the loss of the last step, too."""
    training = run.build(spec, devices, model, partial(at, devices))
    per_call, loss = spec.steps_per_execution, float("nan")
    for first in range(0, len(batches), per_call):
        loss = float(training.towers.step(split(batches[first : first + per_call], devices)))
    return training, loss


def one_step_stale(
    spec: TrialSpec, one_device: Devices, batches: Sequence[WholeBatch]
) -> list[np.ndarray]:
    """Compute in numpy the weights that `staged_vars` must reach, without weight decay.

    w(t+1) = w(t) - lr a(t), a(t) = m a(t-1) + g(w(t-1)), with g from plain steps of one device.
    """
    weights = seen = train(spec, one_device, []).update.weights(0)
    velocity = [np.zeros_like(value) for value in weights]
    for batch in batches:
        gradients = gradients_at(seen, spec, one_device, batch)
        velocity = [spec.momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
        seen = weights
        weights = [w - spec.learning_rate * v for w, v in zip(weights, velocity, strict=True)]
    return weights


def gradients_at(
    weights: Sequence[np.ndarray], spec: TrialSpec, one_device: Devices, batch: WholeBatch
) -> list[np.ndarray]:
    """Return the gradients at these weights, by a step of plain gradient descent of rate 1."""

    def model() -> keras.Model:
        built = convolutional()
        for variable, value in zip(built.trainable_variables, weights, strict=True):
            variable.assign(value)
        return built

    plain = replace(spec, optimizer="sgd", momentum=0.0, weight_decay=0.0, learning_rate=1.0)
    after = train(plain, one_device, [batch], model).update.weights(0)
    return [before - now for before, now in zip(weights, after, strict=True)]


def largest_difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    largest = 0.0
    for own, other in zip(ours, theirs, strict=True):
        largest = max(largest, float(np.abs(own - other).max()))
    return largest


def split(batches: Sequence[WholeBatch], devices: Devices) -> list[Batch]:
    """Split by replica of this process; several batches get a leading dimension of steps."""
    images, labels = (
        np.split(np.stack(arrays), devices.num_all, 1) for arrays in zip(*batches, strict=True)
    )
    parts = []
    for replica, device in enumerate(devices.replicas, devices.first):
        with tf.device(device):
            whole = tf.constant(images[replica]), tf.constant(labels[replica])
            parts.append(whole if len(batches) > 1 else (whole[0][0], whole[1][0]))
    return parts


def at(devices: Devices, batches: list[Batch], index: tf.Tensor) -> list[Batch]:
    """Implement `trainer.towers.Input.at`."""
    chosen = []
    for device, (images, labels) in zip(devices.replicas, batches, strict=True):
        with tf.device(device):
            chosen.append((images[index], labels[index]))
    return chosen

"""AdamW updates weights by its paper's formula, as Keras' does, and its decay is in no gradient."""

from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

from tests.specs import small
from trainer.mode_check import convolutional, largest_difference, train, whole_batches
from trainer.optimizers import adamw
from trainer.towers import Placed

RATE, DECAY, NUM_STEPS = 0.01, 0.1, 5
SPEC = small(optimizer="adamw", momentum=0.0, learning_rate=RATE, weight_decay=DECAY)
WEIGHTS = np.random.default_rng(3).normal(size=(4, 5)).astype("float32")
GRADIENTS = np.random.default_rng(5).normal(size=(NUM_STEPS, 4, 5)).astype("float32")


def updated(spec, device: str) -> np.ndarray:
    """Return the weights after an update with each of the gradients."""
    optimizer = adamw.create(spec)
    placed = Placed.create(WEIGHTS, device, optimizer)

    @tf.function(autograph=False)
    def update(gradient):
        optimizer.begin_step([placed.variable.device])
        placed.apply(gradient, optimizer)

    for gradient in GRADIENTS:
        update(tf.constant(gradient))
    return placed.variable.numpy()


def test_five_updates_follow_the_papers_formula(make_devices):
    """Loshchilov and Hutter 2019, algorithm 2, its decay times schedule multiplier and rate."""
    weights, first, second = WEIGHTS.astype("float64"), 0.0, 0.0
    for t, gradient in enumerate(GRADIENTS.astype("float64"), start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        unbiased = first / (1 - 0.9**t), second / (1 - 0.999**t)
        adam_step = unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)
        weights = weights - RATE * (adam_step + DECAY * weights)
    ours = updated(SPEC, make_devices(1).replicas[0])
    assert np.abs(ours - weights).max() < 1e-6
    without_decay = updated(replace(SPEC, weight_decay=0.0), make_devices(1).replicas[0])
    assert np.abs(without_decay - weights).max() > 1e-3


def test_five_updates_are_those_of_keras(make_devices):
    theirs = keras.Variable(WEIGHTS)
    optimizer = keras.optimizers.AdamW(RATE, weight_decay=DECAY, epsilon=1e-8)
    for gradient in GRADIENTS:
        optimizer.apply([tf.constant(gradient)], [theirs])
    ours = updated(SPEC, make_devices(1).replicas[0])
    assert np.abs(ours - theirs.numpy()).max() < 1e-6


def test_towers_leave_the_decay_out_of_gradients(make_devices):
    """Where all gradients are 0, Adam moves nothing, and weights shrink by rate x decay."""
    devices = make_devices(2)
    silent = [(images * 0.0, labels) for images, labels in whole_batches(2, 3)]
    spec = replace(SPEC, num_gpus=2)
    before = train(spec, devices, [], convolutional)[0].update.weights(0)
    after = train(spec, devices, silent, convolutional)[0].update.weights(0)
    # kernels see images of zeros alone, so that nothing but decay changes those of the first layer
    kernel = next(index for index, values in enumerate(before) if values.ndim == 4)
    wanted = before[kernel] * (1 - RATE * DECAY) ** 3
    assert largest_difference([after[kernel]], [wanted]) < 1e-7

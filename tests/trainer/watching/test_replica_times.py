"""Each replica's own compute is timed alone: nothing is reduced, updated, or waited for."""

import itertools
from dataclasses import replace
from time import sleep

import numpy as np
import pytest
import tensorflow as tf

from scalemark.records.machine import DeviceKind
from tests.specs import small
from tests.trainer.test_towers import INDEPENDENT, MODES
from trainer import model_tower
from trainer.mode_check import convolutional, whole_batches
from trainer.run import build
from trainer.watching import op_placement
from trainer.watching.op_placement import LEAST_ROUNDS, MOST_ROUNDS, time_replicas

pytestmark = pytest.mark.integration


def ready(make_devices, **changes):
    """A training with the weights and the batches of a step."""
    training = build(small(num_gpus=2, **changes), make_devices(2), convolutional)
    ((images, labels),) = whole_batches(1, num_steps=1)
    batches = []
    for device in training.devices.replicas:
        with tf.device(device):
            batches.append((tf.constant(images), tf.constant(labels)))
    weights = [tf.constant(values) for values in training.update.weights(0)]
    return training, weights, batches


def timed(make_devices, clock=None, **changes):
    training, weights, batches = ready(make_devices, **changes)
    timer = {} if clock is None else {"clock": clock}
    return time_replicas(training.towers, weights, batches, training.devices, **timer)


@pytest.mark.parametrize("mode", [*MODES, "independent"])
def test_each_replica_of_every_mode_has_its_times(make_devices, monkeypatch, mode):
    monkeypatch.setattr(op_placement, "MOST_ROUNDS", 2)
    found = timed(make_devices, **(MODES | {"independent": INDEPENDENT})[mode])
    assert list(found.seconds) == ["CPU:1", "CPU:2"]
    assert [len(rounds) for rounds in found.seconds.values()] == [2, 2]
    assert not found.at_once


def test_slow_rounds_are_fewer(make_devices):
    fast = timed(make_devices, clock=itertools.count(step=0.001).__next__)
    slow = timed(make_devices, clock=itertools.count(step=100.0).__next__)
    assert {len(rounds) for rounds in fast.seconds.values()} == {MOST_ROUNDS}
    assert {len(rounds) for rounds in slow.seconds.values()} == {LEAST_ROUNDS}


def test_a_time_covers_the_whole_compute(make_devices, monkeypatch):
    """A bug: TensorFlow left out what only the clock waited for."""
    passed = []
    original = model_tower.accumulated

    def slower(*arguments):
        loss, gradients, state = original(*arguments)
        gradients[0] += tf.numpy_function(
            lambda: passed.append(sleep(0.02)) or np.float32(0), [], tf.float32
        )
        return loss, gradients, state

    monkeypatch.setattr(model_tower, "accumulated", slower)
    monkeypatch.setattr(op_placement, "MOST_ROUNDS", 1)
    found = timed(make_devices)
    assert passed
    assert min(rounds[0] for rounds in found.seconds.values()) >= 0.02


def test_gpus_work_at_once(make_devices, monkeypatch):
    monkeypatch.setattr(op_placement, "MOST_ROUNDS", 2)
    training, weights, batches = ready(make_devices)
    as_gpus = replace(training.devices, kind=DeviceKind.GPU, shared=False)
    found = time_replicas(training.towers, weights, batches, as_gpus)
    assert (found.at_once, [len(rounds) for rounds in found.seconds.values()]) == (True, [2, 2])


def test_timing_changes_no_weights_and_no_state(make_devices, monkeypatch):
    monkeypatch.setattr(op_placement, "MOST_ROUNDS", 2)
    training, weights, batches = ready(make_devices)

    def values():
        return [*training.update.weights(1), *training.towers.state(1)]

    before = values()
    time_replicas(training.towers, weights, batches, training.devices)
    for one, other in zip(before, values(), strict=True):
        np.testing.assert_array_equal(one, other)

"""What is injected waits where it says, once for each step or batch, and changes no number but the time."""

import numpy as np
import pytest
import tensorflow as tf

from scalemark.records.outcomes import Verdict
from tests.specs import small
from tests.trainer.test_towers import INDEPENDENT, MODES, trained
from tests.trainer.test_verdict import verdict
from trainer import injected
from trainer.check.exactness import convolutional, whole_batches
from trainer.image_records import ReplicaFeed
from trainer.run import build

pytestmark = pytest.mark.integration

REDUCTION = "reduction_s=0.25"


@pytest.fixture
def sleeps(monkeypatch):
    """What would have been slept, in seconds."""
    found = []
    monkeypatch.setattr(injected, "sleep", found.append)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_that_reduces_waits_once_per_step_and_trains_the_same(
    make_devices, sleeps, mode
):
    batches = list(whole_batches(2, num_steps=2))
    plain = trained(make_devices, 2, batches, **MODES[mode])
    assert sleeps == []
    slowed = trained(make_devices, 2, batches, injected=REDUCTION, **MODES[mode])
    assert sleeps == [0.25] * len(batches)
    for one, other in zip(plain.update.weights(0), slowed.update.weights(0), strict=True):
        np.testing.assert_array_equal(one, other)


def test_where_nothing_is_reduced_nothing_waits(make_devices, sleeps):
    trained(make_devices, 2, whole_batches(2, 1), injected=REDUCTION, **INDEPENDENT)
    trained(make_devices, 1, whole_batches(1, 1), injected=REDUCTION)
    assert sleeps == []


def test_each_step_of_a_call_waits(make_devices, sleeps):
    trained(
        make_devices, 2, whole_batches(2, num_steps=4), injected=REDUCTION, steps_per_execution=2
    )
    assert sleeps == [0.25] * 4


def test_the_update_waits_for_the_injected_reduction(make_devices, monkeypatch):
    training = build(small(num_gpus=2, injected=REDUCTION), make_devices(2), convolutional)
    before, seen = training.update.weights(0), []
    monkeypatch.setattr(injected, "sleep", lambda _: seen.append(training.update.weights(0)))
    ((images, labels),) = whole_batches(1, num_steps=1)
    training.towers.step([(tf.constant(images), tf.constant(labels))] * 2)
    for at_first, while_waiting, after in zip(
        before, seen[0], training.update.weights(0), strict=True
    ):
        np.testing.assert_array_equal(at_first, while_waiting)
        assert not np.array_equal(while_waiting, after)


def test_every_batch_of_every_replica_is_made_later(make_devices, sleeps):
    images = tf.data.Dataset.from_tensor_slices((tf.zeros((12, 4, 4, 3)), tf.range(12)))
    feed = ReplicaFeed(images, small(batch_size=2, injected="input_s=0.5"), make_devices(2))
    first = feed.next()
    assert [labels.numpy().tolist() for _, labels in first] == [[0, 1], [2, 3]]
    for _ in range(2):
        feed.next()
    assert sleeps == [0.5] * 6


def test_an_injected_trial_is_suspect_and_says_why():
    assert verdict(spec=small(injected=REDUCTION)) == (
        Verdict.SUSPECT,
        ("injected: reduction_s=0.25",),
    )

"""Each replica keeps and updates an equal shard; all of them train as one device does."""

import numpy as np
import pytest

from scalemark.abilities import OPTIMIZERS
from tests.specs import small
from tests.trainer.test_towers import recorded, trained
from trainer.check.exactness import convolutional, largest_difference, whole_batches
from trainer.errors import UnsupportedTrialError
from trainer.run import build

SHARDED = {"variable_update": "sharded"}
NUM_ELEMENTS = 702  # of the model that exactness is checked with


@pytest.mark.parametrize("num_replicas", [2, 3, 4])
def test_shards_are_equal_and_hold_slots_of_their_own_elements_alone(make_devices, num_replicas):
    training = trained(make_devices, num_replicas, [], optimizer="adam", momentum=0.0, **SHARDED)
    assert training.num_parameters == NUM_ELEMENTS
    sizes = []
    for shard, device in zip(training.update._shards, training.devices.replicas, strict=True):
        variables = [each for placed in shard.placed for each in (placed.variable, *placed.slots)]
        assert {variable.device for variable in variables} == {device}
        assert len(variables) == 3 * len(shard.placed)
        sizes.append(sum(placed.variable.shape[0] for placed in shard.placed))
        assert sum(variable.shape[0] for variable in variables) == 3 * sizes[-1]
    assert sum(sizes) == NUM_ELEMENTS
    assert max(sizes) - min(sizes) <= 1


def test_shards_put_together_are_the_initial_weights(make_devices):
    training = trained(make_devices, 3, [], **SHARDED)
    initial = [np.asarray(each) for each in training.template.model.trainable_variables]
    for replica in range(3):
        weights = training.update.weights(replica)
        assert [each.shape for each in weights] == [each.shape for each in initial]
        assert largest_difference(weights, initial) == 0


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_is_exact_on_shards(make_devices, optimizer):
    changes = {"optimizer": optimizer, "momentum": 0.0, "learning_rate": 0.01}
    one = trained(make_devices, 1, whole_batches(3, 3), **changes).update.weights(0)
    placement, training, wanted = recorded(
        make_devices, 3, whole_batches(3, 3), **SHARDED, **changes
    )
    assert placement.problem(wanted) is None
    assert largest_difference(training.update.weights(0), one) < 1e-6
    assert (
        largest_difference(
            training.update.weights(0), trained(make_devices, 1, [], **changes).update.weights(0)
        )
        > 1e-4
    )


@pytest.mark.parametrize(
    ("packs", "sums"),
    [(0, {"AddN @ CPU:1": 5, "AddN @ CPU:2": 2}), (3, {"AddN @ CPU:1": 3, "AddN @ CPU:2": 3})],
)
def test_gradients_are_summed_where_their_shard_is(make_devices, packs, sums):
    """By piece of a variable: the fifth of six is cut in two; or as so many packs for each shard."""
    placement, _, wanted = recorded(
        make_devices, 2, whole_batches(2, 1), gradient_repacking=packs, **SHARDED
    )
    assert placement.problem(wanted) is None
    assert placement.summary()["reduction"] == sums
    assert placement.summary()["update"] == {
        "ResourceApplyMomentum @ CPU:1": 5,
        "ResourceApplyMomentum @ CPU:2": 2,
    }


def test_fewer_elements_than_replicas_leave_some_without_a_shard(make_devices):
    def tiny():
        import keras

        inputs = keras.Input((8, 8, 3))
        pooled = keras.layers.GlobalAveragePooling2D()(inputs)
        first = keras.layers.Lambda(lambda x: x[:, :1])(pooled)
        return keras.Model(inputs, keras.layers.Dense(3, use_bias=False)(first))

    batches = [(images, labels % 3) for images, labels in whole_batches(4, 3)]
    one = trained(make_devices, 1, batches, tiny).update.weights(0)
    training = trained(make_devices, 4, batches, tiny, **SHARDED)
    assert len(training.update.update_devices) == 3
    assert largest_difference(training.update.weights(3), one) < 1e-6


def test_a_single_replica_has_nothing_to_shard_over(make_devices):
    with pytest.raises(
        UnsupportedTrialError,
        match="num_gpus=1: variable_update=sharded shards over 2 replicas or more",
    ):
        build(small(**SHARDED), make_devices(1), convolutional)

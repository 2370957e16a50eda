"""Each replica keeps and updates an equal shard; all of them train as one device does."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.kernels import get_registered_kernels_for_op

from scalemark.abilities import OPTIMIZERS
from tests.specs import small
from tests.tiers import every_other
from tests.trainer.test_towers import recorded, trained
from trainer import UnsupportedTrialError
from trainer.collectives import CollectiveGroup, EqualShards, NcclExchange, RingExchange, ShardRow
from trainer.mode_check import convolutional, largest_difference, whole_batches
from trainer.run import build

SHARDED = {"variable_update": "sharded"}
RING = SHARDED | {"all_reduce": "ring"}
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


@pytest.mark.parametrize("mode", [SHARDED, RING], ids=["none", "ring"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_is_exact_on_shards(make_devices, alone, optimizer, mode):
    changes = {"optimizer": optimizer, "momentum": 0.0, "learning_rate": 0.01}
    placement, training, wanted = recorded(make_devices, 3, whole_batches(3, 3), **mode, **changes)
    assert placement.problem(wanted) is None
    assert largest_difference(training.update.weights(0), alone(3, 3, **changes)) < 1e-6
    assert largest_difference(training.update.weights(0), alone(3, 0, **changes)) > 1e-4


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


@pytest.mark.parametrize(("mode", "num_owners"), [(SHARDED, 3), (RING, 4)], ids=["none", "ring"])
def test_fewer_elements_than_replicas_leave_shards_empty_or_padded(make_devices, mode, num_owners):
    def tiny(kernels):
        import keras

        inputs = keras.Input((8, 8, 3))
        pooled = keras.layers.GlobalAveragePooling2D()(inputs)
        first = keras.layers.Lambda(lambda x: x[:, :1])(pooled)
        return keras.Model(inputs, keras.layers.Dense(3, use_bias=False)(first))

    batches = [(images, labels % 3) for images, labels in whole_batches(4, 3)]
    one = trained(make_devices, 1, batches, tiny).update.weights(0)
    training = trained(make_devices, 4, batches, tiny, **mode)
    assert len(training.update.update_devices) == num_owners
    assert largest_difference(training.update.weights(3), one) < 1e-6


@pytest.mark.integration
@pytest.mark.parametrize(
    ("num_replicas", "packs_and_xla", "optimizer"),
    every_other((2, 3), ((0, "off"), (1, "on"), (3, "off")), ("momentum", "adamw")),
)
def test_shards_of_collectives_are_exact_with_micro_batches(
    make_devices, alone, num_replicas, packs_and_xla, optimizer
):
    packs, xla = packs_and_xla
    changes = {"optimizer": optimizer, "momentum": 0.0, "learning_rate": 0.01}
    batches = list(whole_batches(num_replicas, 3))
    one = alone(num_replicas, 3, **changes)
    changes |= {"gradient_accumulation": 4, "gradient_repacking": packs, "xla": xla}
    update = trained(make_devices, num_replicas, batches, **RING, **changes).update
    for replica in range(num_replicas):
        assert largest_difference(update.weights(replica), one) < 1e-6


@pytest.mark.parametrize("packs", [0, 2])
def test_nccl_scatters_and_gathers_every_message_on_every_gpu(packs):
    """The graph alone, with ranks that are not in the order of GPUs: NCCL runs only on GPUs."""
    gpus = [f"/device:GPU:{number}" for number in range(3)]
    row = ShardRow([np.zeros((2, 5)), np.zeros(4)], packs, len(gpus))
    lengths = {0: [12, 6], 2: [9, 9]}[packs]  # of 10 and 4 elements, or of 7 and 7, padded
    with tf.Graph().as_default() as graph:
        exchange = NcclExchange(CollectiveGroup(gpus, "nccl"), shard_numbers=(2, 0, 1))
        gradients = [tf.ones((2, 5)), tf.ones(4)]
        rows = [row.packed(gradients) for _ in gpus]
        for index in range(row.num_messages):
            sums = exchange.scatter([of_gpu[index] for of_gpu in rows], index)
            assert [total.shape.as_list() for total in sums] == [[lengths[index] // 3]] * 3
            gathered = exchange.gather(sums, index)
            assert [whole.shape.as_list() for whole in gathered] == [[lengths[index]]] * 3
    ops = [op for op in graph.get_operations() if op.type.startswith("Collective")]
    kinds = ("CollectiveReduceScatterV2", "CollectiveGatherV2")
    assert Counter((op.type, op.device) for op in ops) == {
        (kind, gpu): row.num_messages for kind in kinds for gpu in gpus
    }
    assert {op.get_attr("communication_hint") for op in ops} == {b"nccl"}
    keys = Counter(int(tf.get_static_value(op.inputs[3])) for op in ops)
    assert list(keys.values()) == [len(gpus)] * 2 * row.num_messages
    assert {op.inputs[4].op.device for op in ops if op.device == gpus[1]} == {gpus[1]}, "its token"


def test_tensorflow_has_kernels_of_both_collectives_for_gpus():
    for kind in ("CollectiveReduceScatterV2", "CollectiveGatherV2"):
        registered = {kernel.device_type for kernel in get_registered_kernels_for_op(kind).kernel}
        assert "DEFAULT" in registered, "of every device but the CPU"


def test_groups_of_one_process_have_keys_of_their_own(make_devices):
    first, second = (CollectiveGroup(make_devices(2).replicas, "ring") for _ in range(2))
    assert first.ranks(0) == second.ranks(0) == [0, 1]
    assert first._key != second._key


@pytest.mark.parametrize("shard_numbers", [(0, 2, 1), (1, 2, 0)])
def test_shards_in_another_order_than_they_are_gathered_in_are_refused(make_devices, shard_numbers):
    devices = make_devices(3)
    exchange = RingExchange(CollectiveGroup(devices.replicas, "ring"), shard_numbers)
    spec = small(num_gpus=3, **RING)
    with pytest.raises(UnsupportedTrialError, match=r"wanted; choose all_reduce=none") as refused:
        EqualShards(spec, [np.zeros(6, "float32")], devices, optimizer=None, exchange=exchange)
    assert str(list(shard_numbers)) in str(refused.value)


@pytest.mark.parametrize("mode", [SHARDED, RING | {"variable_update": "distributed_sharded"}])
def test_a_single_replica_has_nothing_to_shard_over(make_devices, mode):
    wanted = f"num_gpus=1: variable_update={mode['variable_update']} shards over 2 replicas or more"
    with pytest.raises(UnsupportedTrialError, match=wanted):
        build(small(**mode), make_devices(1), convolutional)

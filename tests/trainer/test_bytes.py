"""Bytes of variables and optimizer state are counted on the device that holds most of them."""

from dataclasses import replace

import pytest

from scalemark.abilities import VARIABLE_UPDATES
from tests.specs import small
from tests.trainer.test_towers import INDEPENDENT, MODES
from trainer.mode_check import convolutional
from trainer.run import build
from trainer.towers import optimizer_state_bytes, variable_bytes

WEIGHTS = 4 * sum((3 * 3 * 3 * 4, 4, 3 * 3 * 4 * 5, 5, 4 * 4 * 5 * 5, 5))
SPREAD = 4 * (3 * 3 * 3 * 4 + 5 + 4 * 4 * 5 * 5)  # of two devices, the one that is dealt more

# of two devices, each with half of every tensor
PADDED_HALF = 4 * (3 * 3 * 3 * 4 // 2 + 2 + 3 * 3 * 4 * 5 // 2 + 3 + 4 * 4 * 5 * 5 // 2 + 3)

SPREAD_MODES = ("ps_gpu", "sharded", "sharded_ring")


def counted(devices, **axes):
    training = build(small(num_gpus=len(devices.replicas), **axes), devices, convolutional)
    return variable_bytes(training.update), optimizer_state_bytes(training.update)


@pytest.mark.parametrize("mode", [name for name in MODES if name not in SPREAD_MODES])
def test_one_device_holds_all_weights_and_their_momentum(make_devices, mode):
    assert counted(make_devices(2), **MODES[mode]) == (WEIGHTS, WEIGHTS)


def test_replicas_alone_hold_all_weights(make_devices):
    assert counted(make_devices(3), **INDEPENDENT) == (WEIGHTS, WEIGHTS)


def test_a_shard_is_an_equal_part_of_weights_and_momentum(make_devices):
    half = 4 * -(-WEIGHTS // 8)
    assert counted(make_devices(2), **MODES["sharded"]) == (half, half)


def test_shards_of_messages_are_equal_and_padded(make_devices):
    one_pack = {"gradient_repacking": 1}
    half = 4 * -(-WEIGHTS // 8)
    assert counted(make_devices(2), **MODES["sharded_ring"]) == (PADDED_HALF, PADDED_HALF)
    assert counted(make_devices(2), **MODES["sharded_ring"], **one_pack) == (half, half)


def test_of_spread_variables_the_fuller_device_counts(make_devices):
    assert counted(make_devices(2), **MODES["ps_gpu"]) == (SPREAD, SPREAD)


@pytest.mark.parametrize(
    ("optimizer", "num_slots"), [("sgd", 0), ("momentum", 1), ("rmsprop", 2), ("adam", 2)]
)
def test_optimizer_state_is_that_of_its_slots(make_devices, optimizer, num_slots):
    _, state = counted(make_devices(1), optimizer=optimizer)
    assert state == num_slots * WEIGHTS


def test_staged_weights_count_where_they_wait(make_devices):
    spread = MODES["ps_gpu"] | {"staged_vars": True}
    assert counted(make_devices(2), **spread) == (SPREAD + WEIGHTS, SPREAD)


@pytest.mark.parametrize(
    ("variable_update", "weights", "state"),
    [
        ("distributed_parameter_server", WEIGHTS, WEIGHTS),
        ("distributed_replicated", WEIGHTS, WEIGHTS),
        ("distributed_all_reduce", WEIGHTS, WEIGHTS),
        ("distributed_sharded", PADDED_HALF, PADDED_HALF),
    ],
)
def test_distributed_modes_are_counted_on_all_devices(
    make_devices, variable_update, weights, state
):
    devices = make_devices(2)
    with_server = replace(devices, parameter_servers=(devices.host,))
    all_reduce = VARIABLE_UPDATES[variable_update].all_reduces[0]
    axes = {"variable_update": variable_update, "all_reduce": all_reduce}
    assert counted(with_server, **axes) == (weights, state)


def test_copies_on_the_parameter_servers_device_count_with_its_masters(make_devices):
    devices = make_devices(2)
    beside_a_replica = replace(devices, parameter_servers=devices.replicas[:1])
    found = counted(beside_a_replica, variable_update="distributed_replicated")
    assert found == (2 * WEIGHTS, WEIGHTS)

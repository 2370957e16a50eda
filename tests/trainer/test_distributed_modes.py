"""Every synchronous mode over several hosts trains as one process with the whole batch does, and does it where it says.

Real processes and real gRPC: `tests/trainer/distributed_modes.py`, once over two hosts and once over three.
"""

import json
import socket
import sys
import threading

import pytest
import tensorflow as tf

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.attempt import Cluster
from tests import watched
from tests.specs import small
from trainer import LostRankError, UnsupportedTrialError, devices
from trainer.devices import short_name

pytestmark = pytest.mark.integration

EXACT, HALF = 1e-6, 2e-3
MODES = [
    "distributed_parameter_server none",
    *(f"distributed_replicated {name}" for name in ("none", "pscpu", "psgpu", "hierarchical_copy")),
    "distributed_all_reduce ring",
    "distributed_sharded ring",
]
HOSTS = {f"worker-{host} CPU:0" for host in range(2)}
REPLICAS = {f"worker-{host} CPU:{number}" for host in range(2) for number in (1, 2)}
PS = {"ps-0 CPU:0", "ps-1 CPU:0"}


def trained(*arguments):
    return json.loads(
        watched.run(
            [sys.executable, "-m", "tests.trainer.distributed_modes", *arguments]
        ).splitlines()[-1]
    )


@pytest.fixture(scope="module")
def two_hosts():
    return trained("2")


@pytest.fixture(scope="module")
def three_hosts():
    return trained("3")


@pytest.mark.parametrize("mode", MODES)
def test_two_hosts_reach_one_devices_loss_and_weights(two_hosts, mode):
    found = two_hosts[f"{mode} -"]
    assert found["problem"] is None
    assert max(found["weights"], found["loss"]) < EXACT


@pytest.mark.parametrize("mode", MODES)
def test_three_hosts_reach_one_devices_loss_and_weights(three_hosts, mode):
    found = three_hosts[f"{mode} -"]
    assert found["problem"] is None
    assert max(found["weights"], found["loss"]) < EXACT


@pytest.mark.parametrize(
    ("options", "bound"),
    [
        ("distributed_parameter_server none staged", EXACT),
        ("distributed_parameter_server none loss_scale", HALF),
        ("distributed_replicated none adam", EXACT),
        ("distributed_replicated none loss_scale", HALF),
        ("distributed_all_reduce ring packs", EXACT),
        ("distributed_parameter_server none micro-batches", EXACT),
        ("distributed_replicated none micro-batches", EXACT),
        ("distributed_all_reduce ring micro-batches", EXACT),
        ("distributed_all_reduce ring compact", HALF),
        ("distributed_sharded ring packs", EXACT),
        ("distributed_sharded ring micro-batches", EXACT),
        ("distributed_parameter_server none adamw", EXACT),
        ("distributed_replicated none adamw", EXACT),
        ("distributed_all_reduce ring adamw", EXACT),
        ("distributed_sharded ring adamw", EXACT),
    ],
)
def test_other_axes_work_over_several_hosts(two_hosts, options, bound):
    found = two_hosts[options]
    assert found["problem"] is None
    assert 0 < found["weights"] < bound


@pytest.mark.parametrize(
    ("mode", "reductions", "updates"),
    [
        ("distributed_parameter_server none", HOSTS | PS, PS),
        ("distributed_replicated none", REPLICAS | PS, PS),
        ("distributed_replicated pscpu", HOSTS | PS, PS),
        ("distributed_replicated psgpu", REPLICAS | PS, PS),
        ("distributed_all_reduce ring", REPLICAS, REPLICAS),
        ("distributed_sharded ring", REPLICAS, REPLICAS),
    ],
)
def test_ops_sit_on_the_hosts_that_the_mode_says(two_hosts, mode, reductions, updates):
    places = two_hosts[f"{mode} -"]["places"]
    assert (set(places["reduction"]), set(places["update"])) == (reductions, updates)


@pytest.mark.parametrize("update", ["distributed_replicated", "distributed_all_reduce"])
def test_nccl_is_refused_where_replicas_are_no_physical_gpus(two_hosts, update):
    assert (
        "one physical GPU per replica; these replicas are CPU devices"
        in two_hosts[f"{update} nccl -"]["refused"]
    )


def test_every_distributed_mode_of_one_client_is_among_them():
    offered = {
        f"{name} {all_reduce}"
        for name, abilities in VARIABLE_UPDATES.items()
        if abilities.is_distributed and not abilities.every_worker_trains
        for all_reduce in abilities.all_reduces
    }
    assert {mode for mode in offered if not mode.endswith("nccl")} == set(MODES)


def test_replicas_of_other_hosts_get_the_same_batches(
    two_hosts,
):
    found = two_hosts["input"]
    assert [short_name(device) for device in found["devices"]] == sorted(REPLICAS)
    of_hosts, of_one_host = found["labels"]
    assert of_hosts == of_one_host
    assert of_hosts[0] != of_hosts[2]


@pytest.mark.slow  # a client alone may wait for ever for a lost rank: what looks after ranks ends it, and here the silence
def test_a_rank_that_ends_in_the_middle_is_named():
    lost = trained("2", "lose")["lost"]
    assert lost.startswith("ps-1 cannot be reached any more: ")
    assert "UNAVAILABLE" in lost or "onnect" in lost  # whichever call of TensorFlow's notices first


def test_a_rank_that_cannot_be_reached_is_named(make_devices):
    nobody = Cluster(worker_hosts=("127.0.0.1:1", "127.0.0.1:2"))
    with pytest.raises(
        LostRankError,
        match=r"worker-1 cannot be reached at 127\.0\.0\.1:2 for 0 s: .*Connection refused",
    ):
        devices.connect(make_devices(1), nobody, reach_s=0.0)


def test_a_trial_of_several_hosts_without_their_cluster_is_refused(monkeypatch):
    monkeypatch.setattr(devices, "claim_own", lambda spec: None)
    with pytest.raises(
        UnsupportedTrialError,
        match="hosts=2: wanted the cluster of the trial's ranks, found this process alone",
    ):
        devices.prepare(small(num_gpus=2, hosts=2, variable_update="distributed_all_reduce"))


def raise_in_a_graph(message):
    raise tf.errors.UnavailableError(
        None, None, f"Graph execution error:\n\nDetected at node Reduce defined at\n{message}\n"
    )


def test_a_rank_that_is_about_to_end_is_named_with_the_reason():
    """It takes one more connection before it is gone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster = Cluster(worker_hosts=("127.0.0.1:1", f"127.0.0.1:{server.getsockname()[1]}"))

        def end() -> None:
            connection, _ = server.accept()
            server.close()
            connection.close()

        ending = threading.Thread(target=end)
        ending.start()
        with (
            pytest.raises(
                LostRankError,
                match=r"^worker-1 cannot be reached any more: Collective ops is aborted$",
            ),
            devices.naming_lost_ranks(cluster),
        ):
            raise_in_a_graph("Collective ops is aborted")
        ending.join()


def test_an_error_that_tells_of_no_loss_is_raised_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster = Cluster(worker_hosts=("127.0.0.1:1", f"127.0.0.1:{server.getsockname()[1]}"))
        with pytest.raises(tf.errors.InvalidArgumentError), devices.naming_lost_ranks(cluster):
            raise tf.errors.InvalidArgumentError(None, None, "shapes differ")

"""The rate between hosts is that of the link, not of what it lets through at once after a rest."""

import subprocess
import sys

import pytest
import tensorflow as tf

from tests.conftest import PROJECT
from trainer.watching import utilization

BURST_BYTES = 256_000
pytestmark = pytest.mark.usefixtures(
    "all_devices"
)  # made first, where other tests of this process need them


class Link:
    """Passes so many bytes per second, and after a rest the burst at once. Its own clock."""

    def __init__(self, bytes_per_s: float) -> None:
        self.bytes_per_s, self.now_s, self.tokens = bytes_per_s, 0.0, float(BURST_BYTES)
        self.num_bytes: list[int] = []

    def copy(self, num_elements: tf.Tensor) -> tf.Tensor:
        num_bytes = 4 * int(num_elements)
        self.num_bytes.append(num_bytes)
        waited = max(0.0, num_bytes - self.tokens)
        self.tokens = max(0.0, self.tokens - num_bytes)
        self.now_s += 1e-4 + waited / self.bytes_per_s
        return tf.constant(1.0)


@pytest.mark.parametrize("mbit", [10, 50, 200, 1000, 100_000])
def test_what_a_link_passes_at_once_after_a_rest_does_not_count(mbit):
    link = Link(mbit * 125_000)
    found = utilization.rate(link.copy, 0.2, lambda: link.now_s)
    latency = 1e-4 * link.bytes_per_s / max(link.num_bytes)  # of a call, in shares of its time
    assert found == pytest.approx(link.bytes_per_s, rel=0.01 + latency)
    assert max(link.num_bytes) <= 32 * 2**20


def test_between_many_hosts_copies_are_shorter():
    link = Link(25e6)
    utilization.rate(link.copy, 0.02, lambda: link.now_s)
    assert link.now_s < 0.2


def test_every_other_host_is_asked_both_ways():
    assert list(utilization.ways(["a", "b", "c"])) == [
        ("a", "b"),
        ("b", "a"),
        ("a", "c"),
        ("c", "a"),
    ]


def test_one_host_has_no_link():
    with pytest.raises(ValueError, match="wanted a device of each of two hosts or more"):
        utilization.link_bytes_per_s(["/job:worker/task:0/device:CPU:0"])


@pytest.mark.integration
def test_a_link_is_measured_over_tensorflow():
    """Between two servers of this machine, each way."""
    code = """
import tensorflow as tf
from trainer.watching.utilization import link_bytes_per_s
from trainer.own_rank import reserved_ports
with reserved_ports(2) as ports:
    cluster = tf.train.ClusterSpec({"worker": [f"127.0.0.1:{port}" for port in ports]})
    servers = [tf.distribute.Server(cluster, job_name="worker", task_index=1)]
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0, protocol="grpc")
    hosts = [f"/job:worker/replica:0/task:{host}/device:CPU:0" for host in range(2)]
    print(link_bytes_per_s(hosts), flush=True)
"""
    reported = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert 0 < float(reported) < float("inf")

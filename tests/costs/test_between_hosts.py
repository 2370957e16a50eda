"""What a step sends between hosts, by hand."""

import pytest

from costs.between_hosts import between_hosts
from scalemark.abilities import distributed

MB = 1e6
EVEN = [1 * MB] * 4


@pytest.mark.parametrize("update", ["distributed_parameter_server", "distributed_replicated"])
def test_weights_and_sums_of_gradients_cross_once_per_host(update):
    sent = between_hosts(update, "none", EVEN, 2, 4)
    assert [(sent.sent(host), sent.received(host)) for host in range(2)] == [(4 * MB, 4 * MB)] * 2
    assert sent.link_bytes == 4 * MB
    assert sent == between_hosts(update, "none", EVEN, 2, 2)
    assert (
        between_hosts(update, "none", EVEN, 4, 4).link_bytes == 6 * MB
    )  # 3/4 of all weights, and of all gradients


def test_the_host_of_the_largest_variable_is_the_busiest():
    sent = between_hosts("distributed_parameter_server", "none", [1 * MB, 6 * MB, 1 * MB], 2, 2)
    weights, gradients = sent.phases
    assert weights.sent == gradients.received == (6 * MB, 2 * MB)
    assert weights.received == gradients.sent == (2 * MB, 6 * MB)
    assert sent.link_bytes == 12 * MB
    assert (sent.sent(0), sent.received(0)) == (8 * MB, 8 * MB)


@pytest.mark.parametrize(
    ("hosts", "num_gpus", "factor"), [(2, 2, 1.0), (2, 4, 1.5), (4, 4, 1.5), (3, 6, 5 / 3)]
)
@pytest.mark.parametrize(
    ("update", "all_reduce"),
    [("distributed_all_reduce", "ring"), ("multi_worker_mirrored", "nccl")],
)
def test_a_ring_through_all_replicas_leaves_each_host_once(
    update, all_reduce, hosts, num_gpus, factor
):
    sent = between_hosts(update, all_reduce, EVEN, hosts, num_gpus)
    assert sent.link_bytes == pytest.approx(factor * 4 * MB)
    assert sent.sent(0) == sent.received(hosts - 1) == pytest.approx(factor * 4 * MB)


def test_with_nccl_within_hosts_the_ring_has_one_replica_per_host():
    assert between_hosts("distributed_all_reduce", "nccl", EVEN, 2, 16).link_bytes == 4 * MB


@pytest.mark.parametrize("update", distributed())
def test_what_is_sent_is_received(update):
    sent = between_hosts(update, "ring", [5 * MB, 3 * MB, 1 * MB], 3, 6)
    for phase in sent.phases:
        assert sum(phase.sent) == pytest.approx(sum(phase.received))


@pytest.mark.parametrize("update", distributed())
def test_one_host_sends_nothing(update):
    assert between_hosts(update, "ring", EVEN, 1, 4).link_bytes == 0


def test_a_way_of_one_host_is_refused():
    with pytest.raises(
        ValueError,
        match="variable_update=replicated: is of one host; of several are distributed_all_reduce, distributed_parameter_server",
    ):
        between_hosts("replicated", "none", EVEN, 2, 2)

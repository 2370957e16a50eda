"""Partitions and nodes are read as Slurm shows them, from 22.05 to 25."""

import math

import pytest

from sweeper.slurm.nodes import Node, Partition, num_gpus, read_nodes, read_partitions

PARTITIONS = """\
PartitionName=main AllowGroups=ALL Default=YES DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=1-12:30:30 Nodes=n[1-4] State=UP TotalNodes=4
PartitionName=debug Default=NO MaxNodes=2 MaxTime=01:00:00 Nodes=n1 PowerDownOnIdle=NO State=DRAIN TotalNodes=1
PartitionName=long Default=NO MaxTime=UNLIMITED State=UP
"""
NODES = """\
NodeName=n1 Arch=x86_64 CPUTot=32 Gres=gpu:a100:8(S:0-1),nvme:1 NodeAddr=10.0.0.1 NodeHostName=n1 OS=Linux 6.1.0 #1 SMP State=IDLE Partitions=main,high  Comment=NodeAddr=bad
NodeName=n2 Gres=(null) State=DOWN+CLOUD Reason=Not responding [slurm@2026-01-01T00:00:00]
"""


def test_partitions_are_read_with_their_limits():
    assert read_partitions(PARTITIONS) == [
        Partition(
            name="main", is_default=True, max_time_min=2190.5, max_nodes=math.inf, is_up=True
        ),
        Partition(name="debug", is_default=False, max_time_min=60, max_nodes=2, is_up=False),
        Partition(
            name="long", is_default=False, max_time_min=math.inf, max_nodes=math.inf, is_up=True
        ),
    ]


def test_nodes_are_read_with_their_gpus():
    assert read_nodes(NODES) == [
        Node(name="n1", num_gpus=8, partitions=("main", "high"), is_up=True),
        Node(name="n2", num_gpus=0, partitions=("",), is_up=False),
    ]


@pytest.mark.parametrize(
    ("gres", "num"),
    [
        ("gpu:8", 8),
        ("gpu", 1),
        ("gpu:a100:4", 4),
        ("gpu:a100", 1),
        ("gpu:a100:4(S:0-1),gpu:h100:2(S:1)", 6),
        ("gpu:tesla_v100-sxm2:8(IDX:0-7)", 8),
        ("gpu:3090:8", 8),
        ("gpu:2080ti:4(S:0)", 4),
        ("gpu:1g.5gb:7", 7),
        ("gpu:a100:2(S:0,1),gpu:1g.5gb:7(S:1)", 9),
        ("gpu:tesla:no_consume:2", 2),
        ("nvme:1, gpu:h100:8", 8),
        ("vgpu:4", 0),
        ("gpus:4,gpu_mem:80", 0),
        ("mps:800,shard:4", 0),
        ("(null)", 0),
        ("", 0),
    ],
)
def test_gpus_are_counted_among_other_resources(gres, num):
    assert num_gpus(gres) == num


@pytest.mark.parametrize(
    ("state", "is_up"),
    [
        ("IDLE", True),
        ("ALLOCATED", True),
        ("MIXED+PLANNED", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("DOWN*", False),
        ("DOWN*+DRAIN", False),
        ("IDLE+DRAIN", False),
        ("ALLOCATED+DRAIN", False),
        ("FUTURE", False),
    ],
)
def test_nodes_that_take_no_jobs_are_distinguished_from_busy_ones(state, is_up):
    (node,) = read_nodes(f"NodeName=n1 State={state} Partitions=main\n")
    assert node.is_up is is_up

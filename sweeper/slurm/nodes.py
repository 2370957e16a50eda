"""What partitions and nodes a Slurm cluster has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sweeper.slurm.commands import ask

_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_NOT_UP = {
    "DOWN",
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "ERROR",
    "FAIL",
    "FAILING",
    "FUTURE",
    "INVALID_REG",
}
"""Words of a state as IDLE+DRAIN or DOWN*+CLOUD; a node that is POWERED_DOWN is started for a
job.
"""
# of a node's generic resources: which sockets and device numbers they have
_PARENTHESES = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A queue of jobs, and its limits."""

    name: str
    is_default: bool
    max_time_min: float  # of a job; infinite where there is no limit
    max_nodes: float  # of a job
    is_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host of the cluster."""

    name: str
    address: str
    num_gpus: int
    partitions: tuple[str, ...]
    is_up: bool  # takes jobs, or will when others have ended


def partitions() -> list[Partition]:
    """All that this user may see. Raises SlurmError."""
    return read_partitions(ask("scontrol", "-a", "-o", "show", "partition"))


def nodes() -> list[Node]:
    """All of the cluster. Raises SlurmError."""
    return read_nodes(ask("scontrol", "-a", "-o", "show", "node"))


def read_partitions(text: str) -> list[Partition]:
    """Of `scontrol -o show partition`."""
    return [
        Partition(
            name=told["PartitionName"],
            is_default=told.get("Default") == "YES",
            max_time_min=_minutes(told.get("MaxTime", "UNLIMITED")),
            max_nodes=_limit(told.get("MaxNodes", "UNLIMITED")),
            is_up=told.get("State", "UP") == "UP",
        )
        for told in _records(text, "PartitionName")
    ]


def read_nodes(text: str) -> list[Node]:
    """Of `scontrol -o show node`."""
    return [
        Node(
            name=told["NodeName"],
            address=told.get("NodeAddr", told["NodeName"]),
            num_gpus=num_gpus(told.get("Gres", "")),
            partitions=tuple(filter(None, told.get("Partitions", "").split(","))),
            is_up=_NOT_UP.isdisjoint(re.findall("[A-Z_]+", told.get("State", ""))),
        )
        for told in _records(text, "NodeName")
    ]


def num_gpus(gres: str) -> int:
    """Of generic resources in Slurm's words: 8 of `gpu:a100:8(S:0-1),nvme:1`."""
    asked = (resource.strip().split(":") for resource in _PARENTHESES.sub("", gres).split(","))
    return sum(
        int(parts[-1]) if len(parts) > 1 and parts[-1].isdigit() else 1
        for parts in asked
        if parts[0] == "gpu"
    )


def _records(text: str, first: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        # the first of a name counts: free text comes last
        told = dict(reversed(_FIELD.findall(line)))
        if first in told:
            yield told


def _limit(text: str) -> float:
    return float(text) if text.isdigit() else math.inf


def _minutes(text: str) -> float:
    """Of `DAYS-HOURS:MINUTES:SECONDS`, as Slurm shows limits."""
    if not (found := _TIME.fullmatch(text)):
        return math.inf
    days, first, second, third = (int(part) if part else None for part in found.groups())
    if third is not None or days is not None:
        return (days or 0) * 1440 + (first or 0) * 60 + (second or 0) + (third or 0) / 60
    return (first or 0) + (second or 0) / 60

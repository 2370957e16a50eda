"""Reads what partitions and nodes a Slurm cluster has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sweeper.slurm.commands import ask

_FIELD = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
# Words of a state as IDLE+DRAIN or DOWN*+CLOUD; a node that is POWERED_DOWN is started for a job.
_NOT_UP = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVALID_REG")
}
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
    num_gpus: int
    partitions: tuple[str, ...]
    is_up: bool  # takes jobs, or will when others have ended


def partitions() -> list[Partition]:
    """Return all that this user may see. Raises SlurmError."""
    return read_partitions(ask("scontrol", "-a", "-o", "show", "partition"))


def nodes() -> list[Node]:
    """Return all of the cluster. Raises SlurmError."""
    return read_nodes(ask("scontrol", "-a", "-o", "show", "node"))


def read_partitions(text: str) -> list[Partition]:
    """Read `scontrol -o show partition`."""
    return [
        Partition(
            name=fields["PartitionName"],
            is_default=fields.get("Default") == "YES",
            max_time_min=_minutes(fields.get("MaxTime", "UNLIMITED")),
            max_nodes=_limit(fields.get("MaxNodes", "UNLIMITED")),
            is_up=fields.get("State", "UP") == "UP",
        )
        for fields in _records(text, "PartitionName")
    ]


def read_nodes(text: str) -> list[Node]:
    """Read `scontrol -o show node`."""
    return [
        Node(
            name=fields["NodeName"],
            num_gpus=num_gpus(fields.get("Gres", "")),
            partitions=tuple(fields.get("Partitions", "").split(",")),
            is_up=_NOT_UP.isdisjoint(re.findall("[A-Z_]+", fields.get("State", ""))),
        )
        for fields in _records(text, "NodeName")
    ]


def num_gpus(gres: str) -> int:
    """Count GPUs among generic resources in Slurm's words: 8 of `gpu:a100:8(S:0-1),nvme:1`."""
    num = 0
    for resource in _PARENTHESES.sub("", gres).split(","):
        kind, *rest = resource.strip().split(":")
        if kind == "gpu":
            num += int(rest[-1]) if rest and rest[-1].isdigit() else 1
    return num


def _records(text: str, first: str) -> Iterator[dict[str, str]]:
    for line in text.splitlines():
        # the first of a name counts: free text comes last
        fields = dict(reversed(_FIELD.findall(line)))
        if first in fields:
            yield fields


def _limit(text: str) -> float:
    return float(text) if text.isdigit() else math.inf


def _minutes(text: str) -> float:
    """Read `DAYS-HOURS:MINUTES:SECONDS`, as Slurm shows limits; infinite for UNLIMITED."""
    found = _TIME.fullmatch(text)
    if not found:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60

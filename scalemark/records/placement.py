"""The process of an attempt, and what it was given to run on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from scalemark.records.validation import (
    build,
    parsed,
)

ORCHESTRATOR_VARIABLE = "SCALEMARK_ORCHESTRATOR"
"""Environment variable that tells a trainer the process id of who started it; it dies with that
process.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process among all that ever ran: its number alone is given to others later."""

    host: str
    boot_id: str  # /proc/sys/kernel/random/boot_id
    pid_namespace: str  # as /proc/self/ns/pid names it: containers number on their own
    pid: int
    start_ticks: int  # since boot; field 22 of /proc/PID/stat


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What an attempt was given to run on, and how it was started: `placement.json`, which its
    trainer obeys.
    """

    start: str  # fork (of a server that has TensorFlow loaded) or spawn (a new process)
    # numbers of the slots it holds: GPUs in the order of the inventory, or CPU stand-ins
    devices: tuple[int, ...]
    visible_devices: str  # CUDA_VISIBLE_DEVICES; empty on CPU stand-ins
    cores: tuple[int, ...] = ()  # CPU cores it may run on; empty = all that the orchestrator may
    # a core of none of the trials, for what watches them; none where there is none to spare
    spare_core: int | None = None
    shares_host: bool = False  # other trials of its sweep may run beside it
    # more data it may not have on a host, all its processes alike; none = no limit
    host_memory_bytes: int | None = None
    # names of the hosts that its ranks run on, worker 0's first; empty = all on this one
    hosts: tuple[str, ...] = ()
    # what starts its ranks there: srun or ray; empty = its trainer itself, as processes of this
    # host
    rank_start: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Placement:
        """Raises ValueError."""
        return build(cls, parsed(text))

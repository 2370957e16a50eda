"""Records of the process of an attempt, and of what it runs on."""

from __future__ import annotations

from dataclasses import dataclass

from scalemark.records.validation import JsonRecord

ORCHESTRATOR_VARIABLE = "SCALEMARK_ORCHESTRATOR"
"""Environment variable with the process id of a trainer's parent, with which it dies."""

WORKDIR_VARIABLE = "SCALEMARK_WORKDIR"
"""Environment variable with the folder from which a sweep was started."""

PYTHONPATH_VARIABLE = "SCALEMARK_PYTHONPATH"
"""Environment variable with the PYTHONPATH that a sweep was started with, for a user's program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Identifies a process for good; its number alone is reused later."""

    host: str
    boot_id: str  # /proc/sys/kernel/random/boot_id
    pid_namespace: str  # as /proc/self/ns/pid names it: containers number on their own
    pid: int
    start_ticks: int  # since boot; field 22 of /proc/PID/stat


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement(JsonRecord):
    """Says what an attempt runs on and how it is started: `placement.json`, which its trainer
    obeys."""

    start: str  # fork (of a server that has TensorFlow loaded) or spawn (a new process)
    # numbers of its slots: GPUs in the order of the inventory, or CPU devices
    devices: tuple[int, ...]
    visible_devices: str  # CUDA_VISIBLE_DEVICES; empty on CPU devices
    cores: tuple[int, ...] = ()  # CPU cores it may run on; empty = all that the orchestrator may
    # a core that no trial runs on, for watching them; None where there is none to spare
    spare_core: int | None = None
    shares_host: bool = False  # other trials of its sweep may run beside it
    # most memory for data on a host, of all its processes together; None = no limit
    host_memory_bytes: int | None = None
    # names of the hosts that its ranks run on, worker 0's first; empty = all on this one
    hosts: tuple[str, ...] = ()
    # what starts its ranks there: srun or ray; empty = its trainer itself, as processes of this
    # host
    rank_start: str = ""

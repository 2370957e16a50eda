"""Asks nvidia-smi on which GPUs the processes of a trial compute."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from contextlib import suppress

import psutil

_QUERY = ("nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader")


def gpus_of(pid: int) -> set[str]:
    """Return the UUIDs of GPUs that a process and its descendants compute on.

    Empty where nvidia-smi cannot be asked, or counts processes otherwise, as in a container.
    """
    pids = {pid}
    with suppress(psutil.NoSuchProcess):
        pids |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    try:
        ended = subprocess.run(_QUERY, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return listed(ended.stdout, pids)


def listed(output: str, pids: Collection[int]) -> set[str]:
    """Return the GPUs of these processes in nvidia-smi's list, whose lines are `PID, UUID`."""
    found = set()
    for line in output.splitlines():
        pid, _, uuid = line.partition(",")
        if pid.strip().isdecimal() and int(pid) in pids:
            found.add(uuid.strip())
    return found

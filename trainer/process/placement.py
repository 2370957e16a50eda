"""Takes what placement.json gives a trainer: cores and limits."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from scalemark.abilities import jobs_of
from scalemark.records.placement import Placement
from scalemark.records.trial import TrialSpec
from trainer.errors import UnsupportedTrialError


def take(placement: Placement) -> None:
    """Pin this process and set its limits, while it has one thread.

    Libraries size their pools by the cores they find. Raises UnsupportedTrialError for cores that
    this process may not use.
    """
    if placement.cores:
        _pin(set(placement.cores))
    _, most_core_bytes = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most_core_bytes))  # a crash leaves no gigabytes
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))


def limit_memory(placement: Placement, spec: TrialSpec) -> None:
    """Limit this process to an equal share of what the attempt's processes may have on this host.

    Raises UnsupportedTrialError for a limit that is reached already.
    """
    if placement.host_memory_bytes is None:
        return
    shares = num_processes(placement, spec)
    limit_bytes = placement.host_memory_bytes // shares
    taken_bytes = _data_bytes()
    if taken_bytes >= limit_bytes:
        each = f" in each of {shares} processes" if shares > 1 else ""
        raise UnsupportedTrialError(
            f"launcher.host_memory_gib={placement.host_memory_bytes / 2**30:g}: "
            f"TensorFlow alone takes {taken_bytes / 2**30:.2f}{each}; raise it"
        )
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def num_processes(placement: Placement, spec: TrialSpec) -> int:
    """Count the ranks on this host; their supervisor is small, and not counted."""
    per_host = max(1, len(jobs_of(spec)))
    return per_host if placement.hosts else spec.hosts * per_host


def _data_bytes() -> int:
    """Return what RLIMIT_DATA limits."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmData:")[2].split()[0]) * 1024


def _pin(cores: set[int]) -> None:
    allowed = os.sched_getaffinity(0)
    if not cores <= allowed:
        raise UnsupportedTrialError(
            f"placement.json gives CPU cores {_listed(cores - allowed)}, and this process may run "
            f"on {_listed(allowed)} only; start the sweep where all its cores may be used"
        )
    os.sched_setaffinity(0, cores)


def _listed(cores: set[int]) -> str:
    return ", ".join(map(str, sorted(cores)))

"""Identifies processes of this host, and those that scalemark has started."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pynvml

from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, ProcessIdentity

# a process that cannot be looked at is taken for dead after so long without a heartbeat
HEARTBEAT_TIMEOUT = timedelta(seconds=120)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


def this_process() -> ProcessIdentity:
    """Identify the calling process."""
    return ProcessIdentity(
        host=platform.node(),
        boot_id=_BOOT_ID.read_text().strip(),
        pid_namespace=str(_PID_NAMESPACE.readlink()),
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()) or 0,
    )


def is_alive(process: ProcessIdentity, heartbeat_at: datetime, now: datetime | None = None) -> bool:
    """Look at the process where its number means something here; else go by its heartbeat."""
    here = this_process()
    if is_visible(process, here) and not _is_hidden(process.pid):
        return start_ticks(process.pid) == process.start_ticks
    if (process.host, process.pid_namespace) == (here.host, here.pid_namespace):
        return False  # this machine was booted since
    return (now or datetime.now(UTC)) - heartbeat_at < HEARTBEAT_TIMEOUT


def dead_in_s(
    process: ProcessIdentity, heartbeat_at: datetime, now: datetime | None = None
) -> float | None:
    """Return the seconds until it is taken for dead without another heartbeat.

    None for a process that can be looked at.
    """
    here = this_process()
    if is_visible(process, here) and not _is_hidden(process.pid):
        return None
    return max(0.0, (heartbeat_at + HEARTBEAT_TIMEOUT - (now or datetime.now(UTC))).total_seconds())


def is_visible(process: ProcessIdentity, here: ProcessIdentity) -> bool:
    """Return whether its number means the same here: same boot of the same machine, same
    container."""
    return (process.boot_id, process.pid_namespace) == (here.boot_id, here.pid_namespace)


def _is_hidden(pid: int) -> bool:
    """Return whether it is another user's, where /proc shows only one's own (hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return not os.access(f"/proc/{pid}/stat", os.R_OK)
    except ProcessLookupError:
        pass
    return False


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None without one, or for a zombie."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(rest[18])


_PARENT = 1  # in /proc/PID/stat, counted from the state


def started_by_scalemark(pid: int, proc: Path = Path("/proc")) -> bool | None:
    """Return whether a process, or one that it descends from, was started for a trial.

    None where no process has this number: it has ended, or is counted as the host counts while
    this container counts otherwise. Of other users' processes the environment cannot be read: they
    are none of ours.
    """
    if not (proc / str(pid)).exists():
        return None
    ours = f"{ORCHESTRATOR_VARIABLE}=".encode()
    while pid > 1:
        if any(entry.startswith(ours) for entry in _environment(pid, proc)):
            return True
        pid = _parent(pid, proc)
    return False


def _environment(pid: int, proc: Path) -> list[bytes]:
    try:
        return (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # another user's, or it has ended
        return []


def _parent(pid: int, proc: Path) -> int:
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[_PARENT])  # the name before it may have spaces


# of nvidia-cuda-mps-server, as much as the kernel keeps; nvidia-cuda-mps-control uses no GPU
_MPS_SERVER = "nvidia-cuda-mps"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcesses:
    """The processes of one GPU, as pynvml's records with `pid` and `usedGpuMemory`."""

    # without desktop programs, which draw too, and MPS' server; None where the driver does not
    # tell of all
    computing: tuple[Any, ...] | None
    num_drawing: int
    has_mps: bool  # MPS shares it out
    mps_server_bytes: int = 0  # that MPS' server itself holds

    @property
    def is_any(self) -> bool:
        """Return whether any is known; MPS' clients count, and its server where there is none."""
        has_idle_mps = self.has_mps and self.computing is not None
        return bool(self.computing or self.num_drawing or has_idle_mps)


def processes_of(handle: object) -> GpuProcesses:
    """Return what the driver lists."""
    drawing = {one.pid for one in _listed("Graphics", handle) or ()}
    listed = _listed("Compute", handle)
    clients = _listed("MPSCompute", handle)
    found = {one.pid: one for one in (*(listed or ()), *(clients or ()))}
    servers = {pid for pid in found if _is_mps_server(pid)}
    computing = [one for pid, one in found.items() if pid not in drawing | servers]
    hides_clients = bool(servers) and clients is None
    return GpuProcesses(
        computing=None if listed is None or hides_clients else tuple(computing),
        num_drawing=len(drawing),
        has_mps=bool(servers),
        mps_server_bytes=sum(found[pid].usedGpuMemory or 0 for pid in servers),
    )


def memory_in_use(handle: object) -> int | None:
    """Return the bytes in use, without what the driver reserves for itself; None where untold.

    Drivers before 510 know no other figure, and reserve nothing in it; later ones count 912 MB of
    an idle A100 as used unless asked so (rust-nvml/nvml-wrapper#57), and 645 MB of an idle H200.
    """
    get = pynvml.nvmlDeviceGetMemoryInfo
    try:
        try:
            return int(get(handle, version=pynvml.nvmlMemory_v2).used)
        except pynvml.NVMLError_FunctionNotFound:
            return int(get(handle).used)
    except pynvml.NVMLError:
        return None


def _listed(kind: str, handle: object) -> list[Any] | None:
    """Return None where this driver, GPU or container refuses it."""
    ask = f"nvmlDeviceGet{kind}RunningProcesses"
    try:
        try:
            return list(getattr(pynvml, ask)(handle))
        except pynvml.NVMLLibraryMismatchError:  # no NVMLError; drivers before 510 lack the newest
            return list(getattr(pynvml, f"{ask}_v2")(handle))
    except pynvml.NVMLError:
        return None


def _is_mps_server(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == _MPS_SERVER
    except OSError:  # of another container, or it has ended
        return False

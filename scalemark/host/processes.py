"""Identifies processes of this host, and those that scalemark has started."""

import os
import platform
import select
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

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
    left_s = dead_in_s(process, heartbeat_at, now)
    if left_s is None:
        return start_ticks(process.pid) == process.start_ticks
    here = this_process()
    if (process.host, process.pid_namespace) == (here.host, here.pid_namespace):
        return False  # this machine was booted since
    return left_s > 0


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


def wait_readable(descriptors: Iterable[int], timeout_s: float = 0.0) -> list[int]:
    """Sleep until some of these have something to read, or have come to their end, as a pidfd does
    with its process; return them. Also for numbers above 1023, which select.select refuses.
    """
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(max(0.0, timeout_s) * 1000)]


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

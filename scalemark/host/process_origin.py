"""Tells which of this host's processes scalemark has started, however many processes later."""

from __future__ import annotations

from pathlib import Path

from scalemark.records.placement import ORCHESTRATOR_VARIABLE

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

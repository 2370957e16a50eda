"""Finds, signals and ends all that this process has started, wherever it went.

A program may start others in sessions and groups of their own, or have them adopted by leaving
first. This process is a child subreaper: what loses its parent becomes its child, and is found.
"""

import ctypes
import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scalemark.text.untrusted import without_secrets

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_PARENT, _CPU_TICKS, _RSS = 1, slice(11, 15), 21  # in /proc/PID/stat, counted from the state
_ZOMBIE = "Z"
END_WITHIN_S = 20.0  # of killed processes: the kernel may be freeing much memory
_LOOK_EVERY_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A process that descends from this one, at one moment."""

    pid: int
    parent: int
    is_zombie: bool
    cpu_s: float  # of itself, and of its children that have ended and were waited for
    resident_bytes: int


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants(but: Collection[int] = ()) -> list[Child]:
    """Return all that descend from this process, but these and what they have started."""
    by_parent: dict[int, list[Child]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - it is done during measurements
        if name.isdigit() and (child := _child(int(name))):
            by_parent.setdefault(child.parent, []).append(child)
    below: list[Child] = []
    parents = [os.getpid()]
    while parents:
        for child in by_parent.get(parents.pop(), ()):
            if child.pid not in but:
                below.append(child)
                parents.append(child.pid)
    return below


def signal_all(which: signal.Signals, but: Collection[int] = ()) -> None:
    """Send a signal to every descendant, but these."""
    for child in descendants(but):
        if not child.is_zombie:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child.pid, which)


def end_all(but: Collection[int] = (), within_s: float = END_WITHIN_S) -> list[str]:
    """Kill all descendants but these, and wait for them; return the commands of what was running.

    A program of another user, as sudo starts it, cannot be killed, and is given up after a while.
    """
    until_s = time.monotonic() + within_s
    commands: dict[int, str] = {}
    while left := descendants(but):
        for child in left:
            if child.is_zombie:
                _reap(child)
                continue
            commands.setdefault(child.pid, command_of(child.pid))
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child.pid, signal.SIGKILL)
        if time.monotonic() > until_s:
            break
        if any(not child.is_zombie for child in left):
            time.sleep(_LOOK_EVERY_S)
    return list(commands.values())


def living(but: Collection[int] = ()) -> list[Child]:
    """Return the descendants that run, but these.

    Adopted ones that have ended are let go of; their CPU seconds become this process's. What such
    a one had started meanwhile the same look may have missed, so another follows.
    """
    while True:
        below = descendants(but)
        running = [child for child in below if not child.is_zombie]
        let_go = [child for child in below if child.is_zombie and _reap(child)]
        if running or not let_go:
            return running


def command_of(pid: int) -> str:
    """Return its command line, shortened; empty where there is none to be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    line = " ".join(os.fsdecode(word) for word in words if word)
    return without_secrets(line[:10_000])[:100]


def _reap(child: Child) -> bool:
    """Return whether it was a child of this process, and is gone."""
    if child.parent != os.getpid():
        return False
    try:
        return os.waitpid(child.pid, os.WNOHANG)[0] == child.pid
    except ChildProcessError:
        return True


def _child(pid: int) -> Child | None:
    """Return None for a process that has ended meanwhile."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            text = file.read(1024)
    except OSError:
        return None
    after_name = text.rpartition(b")")[2].split()  # the name before it may have spaces
    if len(after_name) <= _RSS:
        return None
    return Child(
        pid=pid,
        parent=int(after_name[_PARENT]),
        is_zombie=after_name[0] == _ZOMBIE.encode(),
        cpu_s=sum(map(int, after_name[_CPU_TICKS])) / _TICKS_PER_S,
        resident_bytes=int(after_name[_RSS]) * _PAGE_BYTES,
    )


_TICKS_PER_S, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")

"""Asks whether processes have ended, and ends what dead orchestrators and killed attempts left."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from scalemark.host.processes import start_ticks
from scalemark.records.attempt import ORCHESTRATOR_VARIABLE

_END_WITHIN_S = 30.0  # of a killed process: the kernel may be freeing much memory
# of orphans: who waits for them has other attempts and a heartbeat to look after, and tries again
_ALL_END_WITHIN_S = 5.0
_OWN = Path("/proc/self")


def end_orphans(variable: str, folder: Path, default: Path) -> tuple[int, list[int]]:
    """Kill the orphans of one folder of locks; return how many ended, and the ids of the others.

    An orphan was started for an orchestrator, or by a trainer, that does not run any more, and its
    `variable`, or else the `default`, names the folder. What is in another container is left alone,
    for the number of its orchestrator means nothing here, and so is what we may not look at.
    """
    return _kill_all(lambda process: _is_orphan(process, variable, folder, default))


def end_started_by(starter: int) -> None:
    """Kill what a process of ours had started, which has just been killed itself.

    A user's program runs in a session of its own, and its children may do so, too. What SIGKILL
    does not end within seconds is left.
    """
    marker = f"{ORCHESTRATOR_VARIABLE}={starter}".encode()

    def was_started(process: Path) -> bool:
        return marker in _environment(process) and _is_of_this_container(process)

    _kill_all(was_started)


def kill(pid: int) -> None:
    """Kill a process, and wait until it has ended: it holds devices."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        _has_ended(descriptor, _END_WITHIN_S)
    finally:
        os.close(descriptor)


def is_readable(descriptor: int) -> bool:
    """Return whether it has something to read, or has come to its end: True for a pidfd whose
    process has ended. Never waits; unlike select.select this takes numbers above 1023.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _kill_all(is_wanted: Callable[[Path], bool]) -> tuple[int, list[int]]:
    """Kill processes, by their folders in /proc; return how many ended, and the ids of others."""
    killed = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError), ExitStack() as stack:  # it has ended, or may not be looked at
            # first: its number cannot become another's from here on
            descriptor = os.pidfd_open(int(process.name))
            stack.callback(os.close, descriptor)
            if is_wanted(process):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                stack.pop_all()
                killed[int(process.name)] = descriptor
    until_s = time.monotonic() + _ALL_END_WITHIN_S
    left = []
    for pid, descriptor in killed.items():
        if not _has_ended(descriptor, until_s - time.monotonic()):
            left.append(pid)
        os.close(descriptor)
    return len(killed) - len(left), left


def _has_ended(descriptor: int, within_s: float) -> bool:
    return bool(select.select([descriptor], [], [], max(0.0, within_s))[0])


def _is_orphan(process: Path, variable: str, folder: Path, default: Path) -> bool:
    variables = dict(entry.partition(b"=")[::2] for entry in _environment(process))
    starter = variables.get(ORCHESTRATOR_VARIABLE.encode(), b"")
    if not starter.isdigit() or int(process.name) == os.getpid():
        return False
    locks = Path(os.fsdecode(variables.get(variable.encode()) or os.fsencode(default)))
    if locks != folder or not _is_of_this_container(process):
        return False
    began, starter_began = start_ticks(int(process.name)), start_ticks(int(starter))
    # else the number is another's by now
    return began is not None and (starter_began is None or starter_began > began)


def _environment(process: Path) -> list[bytes]:
    return (process / "environ").read_bytes().split(b"\0")


def _is_of_this_container(process: Path) -> bool:
    return (process / "ns/pid").readlink() == (_OWN / "ns/pid").readlink()

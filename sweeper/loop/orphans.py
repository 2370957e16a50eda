"""Kills what attempts left behind: those of dead orchestrators, and those that were killed."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from scalemark.host.processes import start_ticks, wait_readable
from scalemark.records.attempt import ORCHESTRATOR_VARIABLE

_END_WITHIN_S = 30.0  # what was killed: the kernel may be freeing much memory
# orphans: who waits for them has other attempts and a heartbeat to look after, and tries again
_ORPHANS_END_WITHIN_S = 5.0
_OWN = Path("/proc/self")


def end_orphans(variable: str, folder: Path, default: Path) -> tuple[int, list[int]]:
    """Kill the orphans of one folder of locks; return how many ended, and the ids of the others.

    An orphan was started for an orchestrator, or by a trainer, that does not run any more, and its
    `variable`, or else the `default`, names the folder. What is in another container is left alone,
    for the number of its orchestrator means nothing here, and so is what we may not look at.
    """

    def is_orphan(process: Path, variables: dict[bytes, bytes]) -> bool:
        starter = _starter(variables)
        if starter is None or int(process.name) == os.getpid():
            return False
        locks = Path(os.fsdecode(variables.get(variable.encode()) or os.fsencode(default)))
        if locks != folder or not _is_of_this_container(process):
            return False
        began, starter_began = start_ticks(int(process.name)), start_ticks(starter)
        # else the number is another's by now
        return began is not None and (starter_began is None or starter_began > began)

    return _kill_all(is_orphan, _ORPHANS_END_WITHIN_S)


def end_started_by(starter: int) -> None:
    """Kill what a process of ours had started, which has just been killed itself.

    A user's program runs in a session of its own, and its children may do so, too. What SIGKILL
    does not end within seconds is left.
    """

    def was_started(process: Path, variables: dict[bytes, bytes]) -> bool:
        return _starter(variables) == starter and _is_of_this_container(process)

    _kill_all(was_started, _ORPHANS_END_WITHIN_S)


def end_attempt(orchestrator: int, trainer: int, run_dir: str | None) -> None:
    """Kill what still runs of a dead orchestrator's attempt, and wait until it has ended, for it
    holds devices: the group of its trainer, and its ranks, which lead groups of their own and work
    in its run folder.
    """

    def is_of_attempt(process: Path, variables: dict[bytes, bytes]) -> bool:
        if _starter(variables) not in (orchestrator, trainer):
            return False
        if os.getpgid(int(process.name)) == trainer:
            return True
        if run_dir is None:
            return False
        return (process / "cwd").readlink() == Path(run_dir).resolve()

    _kill_all(is_of_attempt, _END_WITHIN_S)


def _kill_all(
    is_wanted: Callable[[Path, dict[bytes, bytes]], bool], within_s: float
) -> tuple[int, list[int]]:
    """Kill processes, by their folders in /proc and their variables; return how many ended, and the
    ids of others.
    """
    killed = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError), ExitStack() as stack:  # it has ended, or may not be looked at
            # first: its number cannot become another's from here on
            descriptor = os.pidfd_open(int(process.name))
            stack.callback(os.close, descriptor)
            entries = (process / "environ").read_bytes().split(b"\0")
            if is_wanted(process, dict(entry.partition(b"=")[::2] for entry in entries)):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                stack.pop_all()
                killed[int(process.name)] = descriptor
    until_s = time.monotonic() + within_s
    left = []
    for pid, descriptor in killed.items():
        if not wait_readable([descriptor], until_s - time.monotonic()):
            left.append(pid)
        os.close(descriptor)
    return len(killed) - len(left), left


def _starter(variables: dict[bytes, bytes]) -> int | None:
    """Return the process that a process was started for."""
    starter = variables.get(ORCHESTRATOR_VARIABLE.encode(), b"")
    if starter.isdigit():
        return int(starter)
    return None


def _is_of_this_container(process: Path) -> bool:
    return (process / "ns/pid").readlink() == (_OWN / "ns/pid").readlink()

"""Kills what attempts left behind: those of dead orchestrators, and those that were killed."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from scalemark.host.processes import (
    ORCHESTRATOR_VARIABLE,
    kill_all,
    signal_at_end_of_parent,
    start_ticks,
    wait_readable,
)

# who waits for them has other attempts and a heartbeat to look after, and tries again
_ORPHANS_END_WITHIN_S = 5.0
_OWN = Path("/proc/self")
_GUARD = "scalemark-guard"  # what ps and top call it
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ROUNDS = 100  # a process that goes on forking is chased for so long


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
        return locks == folder and _has_outlived(process, starter)

    return kill_all(is_orphan, _ORPHANS_END_WITHIN_S)


def end_started_by(starter: int, within_s: float = _ORPHANS_END_WITHIN_S) -> tuple[int, list[int]]:
    """Kill what a process of ours had started, which has been killed itself; return how many ended,
    and the ids of others.

    Ranks and a user's program run in sessions of their own, and their children may do so, too. What
    SIGKILL does not end in time is left.
    """

    def was_started(process: Path, variables: dict[bytes, bytes]) -> bool:
        if _starter(variables) != starter or not _has_outlived(process, starter):
            return False
        # guards of trainers have work to do, and end by themselves
        return (process / "comm").read_text().strip() != _GUARD

    return kill_all(was_started, within_s)


class Guard:
    """A process that waits until this one has ended, even by SIGKILL, and then kills what this one
    had started. Linux kills a trainer whose parent dies, but not what that trainer has started.
    """

    def __init__(self) -> None:
        """Fork it before threads are started, and anything that it guards. Raises OSError."""
        its, self._ours = os.pipe()
        starter = os.getpid()
        # a hook of the fork that is interrupted prints a traceback, and the interrupt is lost
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _stand_by(its, starter)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(its)

    def close(self) -> None:
        """Send it home: all has ended."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._ours)


def _stand_by(pipe: int, starter: int) -> NoReturn:
    """Never return into the program that was forked."""
    try:
        os.setsid()
        (_OWN / "comm").write_text(_GUARD)
        for number in _STOPPING:
            signal.signal(number, signal.SIG_IGN)
        # one that somebody stopped does its work nevertheless
        signal_at_end_of_parent(signal.SIGCONT)
        kept = os.dup2(pipe, 0)  # and with all others its own copy of the writing end is closed
        os.closerange(1, os.sysconf("SC_OPEN_MAX"))
        os.read(kept, 1)
        with suppress(ProcessLookupError):  # it has been reaped already
            # its files are closed before it has ended, and until then nothing has outlived it
            wait_readable([os.pidfd_open(starter)], _ORPHANS_END_WITHIN_S)
        for _ in range(_ROUNDS):
            if end_started_by(starter) == (0, []):
                break
    finally:
        os._exit(0)


def _starter(variables: dict[bytes, bytes]) -> int | None:
    """Return the process that a process was started for."""
    starter = variables.get(ORCHESTRATOR_VARIABLE.encode(), b"")
    if starter.isdigit():
        return int(starter)
    return None


def _has_outlived(process: Path, starter: int) -> bool:
    """Say whether its starter has ended; of another container that is not known."""
    if (process / "ns/pid").readlink() != (_OWN / "ns/pid").readlink():
        return False
    began, starter_began = start_ticks(int(process.name)), start_ticks(starter)
    # else the number is another's by now
    return began is not None and (starter_began is None or starter_began > began)

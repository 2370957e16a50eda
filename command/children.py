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

import psutil

from scalemark.text.untrusted import without_secrets

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
END_WITHIN_S = 20.0  # of killed processes: the kernel may be freeing much memory
_LOOK_EVERY_S = 0.01


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def descendants(spared: Collection[int] = ()) -> list[psutil.Process]:
    """Return all that descend from this process, but these, which start no others."""
    below = psutil.Process().children(recursive=True)
    return [child for child in below if child.pid not in spared]


def signal_all(which: signal.Signals, spared: Collection[int] = ()) -> None:
    """Send a signal to every descendant, but these."""
    for child in descendants(spared):
        if not _is_zombie(child):
            with suppress(psutil.Error):
                child.send_signal(which)  # not to another that has its number by now


def end_all(spared: Collection[int] = ()) -> list[str]:
    """Kill all descendants but these, and wait for them; return the commands of what was running.

    A program of another user, as sudo starts it, cannot be killed, and is given up after a while.
    """
    until_s = time.monotonic() + END_WITHIN_S
    commands: dict[int, str] = {}
    while left := descendants(spared):
        is_running = False
        for child in left:
            if _is_zombie(child):
                _reap(child)
                continue
            is_running = True
            commands.setdefault(child.pid, command_of(child))
            with suppress(psutil.Error):
                child.kill()
        if time.monotonic() > until_s:
            break
        if is_running:
            time.sleep(_LOOK_EVERY_S)
    return list(commands.values())


def living(spared: Collection[int] = ()) -> list[psutil.Process]:
    """Return the descendants that run, but these.

    Adopted ones that have ended are let go of; their CPU seconds become this process's. What such
    a one had started meanwhile the same look may have missed, so another follows.
    """
    while True:
        below = descendants(spared)
        running = [child for child in below if not _is_zombie(child)]
        let_go = [child for child in below if child not in running and _reap(child)]
        if running or not let_go:
            return running


def command_of(process: psutil.Process) -> str:
    """Return the command line of a process, shortened; empty where there is none to be read."""
    try:
        line = " ".join(filter(None, process.cmdline()))
    except psutil.Error:
        return ""
    return without_secrets(line[:10_000])[:100]


def _is_zombie(process: psutil.Process) -> bool:
    """Return whether the process has ended, whether or not its parent has waited for it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _reap(child: psutil.Process) -> bool:
    """Return whether it was a child of this process, and is gone."""
    try:
        return os.waitpid(child.pid, os.WNOHANG)[0] == child.pid
    except ChildProcessError:
        return not child.is_running()

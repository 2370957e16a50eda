"""Ties the life of this process to that of the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Ask Linux to kill this process when its parent, of that process id, dies: nothing is
    orphaned. `by` is kept over exec.

    Linux takes the thread that started this process for the parent: start from one that lives as
    long as its process.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    if os.getppid() != parent:  # it died before we asked
        os.kill(os.getpid(), by)


def heed_signals() -> None:
    """Restore the default handling of signals that the starting process changed."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def end_at_signals() -> None:
    """Let SIGINT and SIGTERM end this process at once, also while a library holds the interpreter
    and waits.

    Libraries that take them for themselves, as TensorFlow does when it joins a cluster, do so
    later: call again then.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

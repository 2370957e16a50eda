"""Ends what dead orchestrators left running on this host, whichever database they worked for."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

from store.process_identity import start_ticks
from store.records import ORCHESTRATOR_VARIABLE

_END_WITHIN_S = 30  # of a killed process: the kernel may be freeing much memory
_OWN = Path("/proc/self")


def end_orphans(variable: str, folder: Path, default: Path) -> int:
    """How many there were, of those whose `variable`, or else the `default`, names this folder of locks.

    An orphan was started for an orchestrator, or by a trainer, that does not run any more. What is in another container, or
    another user's, is left alone: the number of its orchestrator means nothing here.
    """
    num_ended = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, PermissionError, FileNotFoundError):  # it has ended, or is another user's
            variables = dict(one.partition(b"=")[::2] for one in (process / "environ").read_bytes().split(b"\0"))
            locks = Path(os.fsdecode(variables.get(variable.encode()) or os.fsencode(default)))
            starter = variables.get(ORCHESTRATOR_VARIABLE.encode(), b"")
            if starter.isdigit() and locks == folder and _is_orphan(process, int(starter)):
                kill(int(process.name))
                num_ended += 1
    return num_ended


def kill(pid: int) -> None:
    """And wait until it has ended: it holds devices."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], _END_WITHIN_S)
    finally:
        os.close(descriptor)


def _is_orphan(process: Path, starter: int) -> bool:
    if (process / "ns/pid").readlink() != (_OWN / "ns/pid").readlink():
        return False
    began, starter_began = start_ticks(int(process.name)), start_ticks(starter)
    return began is not None and (starter_began is None or starter_began > began)  # else the number is another's by now

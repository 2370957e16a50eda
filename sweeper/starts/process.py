"""Defines the seam between attempts and the ways of starting them."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from scalemark.run_folder import RunFolder


class Process(Protocol):
    """A started trainer. It leads a session and a process group, both of its own number."""

    @property
    def pid(self) -> int: ...

    @property
    def descriptor(self) -> int:
        """A pidfd: readable once the process has ended."""

    @property
    def start(self) -> str:
        """fork or spawn, as it was started in the end."""

    def signal_group(self, which: signal.Signals) -> None:
        """Send a signal to it and to what it started; nothing happens when all have ended."""

    def reap(self) -> int | None:
        """Return the exit status, -N after signal N, None when nobody saw it. Close the descriptor.

        Call once, when the process and its group have ended: from then on the kernel may give its
        number to another.
        """


def signal_group(pid: int, descriptor: int, which: signal.Signals) -> None:
    """Signal the group that the process leads, or the process until it leads one."""
    try:
        os.killpg(pid, which)
    except ProcessLookupError:
        with suppress(ProcessLookupError):  # it has ended, which is what was wanted
            signal.pidfd_send_signal(descriptor, which)


class Start(Protocol):
    """A way of starting trainers.

    Use it from one thread that lives as long as they shall: Linux ends them with it.
    """

    @property
    def name(self) -> str:
        """The choice of launcher.start."""

    @property
    def problem(self) -> str | None:
        """The reason why it starts trainers in another way than its name says."""

    def prepare(self, folder: RunFolder, environment: Mapping[str, str]) -> int | None:
        """Begin to load what `start` with the same arguments will need, and do not wait for it.

        Return None when `start` will not wait, either. Else return a descriptor that is readable
        when something has happened: call again then, and every few seconds, for what takes too long
        is given up here. Errors are raised by `start`.
        """

    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Process:
        """Start a trainer on the folder's trial.json, with exactly this environment.

        Waits for what was not prepared. Raises OSError.
        """

    def close(self) -> None:
        """End what helped to start them. Trainers that still run are ended with it."""

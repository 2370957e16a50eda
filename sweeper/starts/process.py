"""What it takes to start a trainer, and what a started one is: the seam between attempts and ways
of starting them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from scalemark.run_folder.folder import RunFolder


class Process(Protocol):
    """A started trainer. It leads a session and a process group, both of its own number."""

    @property
    def pid(self) -> int: ...

    @property
    def descriptor(self) -> int:
        """A pidfd: readable once the process has ended."""

    @property
    def start(self) -> str:
        """How it was started in the end: fork or spawn."""

    def signal_group(self, which: signal.Signals) -> None:
        """Send a signal to it and to what it started. Nothing happens when all have ended."""

    def reap(self) -> int | None:
        """Exit status, -N when ended by signal N, None when nobody saw it. Call once, when the
        process and its group have ended:

        from then on the kernel may give its number to another. Closes the descriptor.
        """


def signal_group(pid: int, descriptor: int, which: signal.Signals) -> None:
    """The group has the number of the process, which leads a session; until it does, it is alone."""
    try:
        os.killpg(pid, which)
    except ProcessLookupError:
        with suppress(ProcessLookupError):  # it has ended, which is what was wanted
            signal.pidfd_send_signal(descriptor, which)


class Start(Protocol):
    """A way of starting trainers. Use from one thread that lives as long as they shall: Linux ends
    them with it.
    """

    @property
    def name(self) -> str:
        """As launcher.start has it."""

    @property
    def problem(self) -> str | None:
        """Why it starts trainers in another way than its name says; None when it does not."""

    def prepare(self, folder: RunFolder, environment: Mapping[str, str]) -> int | None:
        """Begin to load what `start` with the same arguments will need, and do not wait for it.

        None: `start` can be called now and will not wait, either. Else a descriptor that is
        readable when something has happened: call again then, and every few seconds, for what takes
        too long is given up here. What stands in the way of a start is told by `start`. What was
        loaded for nobody stays loaded.
        """

    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Process:
        """Start a trainer on the folder's trial.json, with exactly this environment. Waits for what
        was not prepared.

        Raises OSError when it cannot be.
        """

    def close(self) -> None:
        """End what helped to start them. Trainers that still run are ended with it."""

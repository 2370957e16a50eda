"""Defines what starts trainers; `Spawn` starts a new Python for every attempt, which imports
TensorFlow itself: launcher.start=spawn.
"""

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from scalemark.host import own_code
from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from scalemark.records import attempt
from scalemark.run_folder import RunFolder
from sweeper.devices import host_lock

# the first changes how Hydra fails; by the second a trainer would take itself for a rank
_NOT_FOR_TRAINERS = ("HYDRA_FULL_ERROR", "TF_CONFIG")


def environment(inherited: Mapping[str, str], visible_devices: str) -> dict[str, str]:
    """Return the variables of a trainer; it runs in another folder, so paths are made absolute."""
    kept = {name: value for name, value in inherited.items() if name not in _NOT_FOR_TRAINERS}
    if cache := inherited.get("SCALEMARK_CACHE"):
        kept["SCALEMARK_CACHE"] = str(Path(cache).absolute())
    if locks := inherited.get(host_lock.VARIABLE):
        # by this others find it as an orphan once we are dead
        kept[host_lock.VARIABLE] = str(Path(locks).expanduser().resolve())
    if own := inherited.get(attempt.PYTHONPATH_VARIABLE, inherited.get("PYTHONPATH")):
        kept[attempt.PYTHONPATH_VARIABLE] = own
    return kept | {
        ORCHESTRATOR_VARIABLE: str(os.getpid()),
        attempt.WORKDIR_VARIABLE: str(Path.cwd()),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible_devices,
        "PYTHONPATH": own_code.python_path(inherited),
    }


class Process:
    """A started trainer. It leads a session and a process group, both of its own number."""

    def __init__(self, pid: int, start: str, wait: Callable[[], int | None]) -> None:
        """`wait` returns the exit status and frees the number. Raises OSError."""
        self.pid = pid
        self.start = start  # fork or spawn, as it was started in the end
        # a pidfd, readable once the process has ended; until `wait` the number is its own
        self.descriptor = os.pidfd_open(pid)
        self._wait = wait

    def signal_group(self, which: signal.Signals) -> None:
        """Signal its group, or the process until it leads one; nothing when all have ended."""
        try:
            os.killpg(self.pid, which)
        except ProcessLookupError:
            with suppress(ProcessLookupError):  # it has ended, which is what was wanted
                signal.pidfd_send_signal(self.descriptor, which)

    def reap(self) -> int | None:
        """Return the exit status, -N after signal N, None when nobody saw it. Close the descriptor.

        Call once, when the process and its group have ended: from then on the kernel may give its
        number to another.
        """
        os.close(self.descriptor)
        return self._wait()


class Start(ABC):
    """A way of starting trainers.

    Use it from one thread that lives as long as they shall: Linux ends them with it.
    """

    name: str  # the choice of launcher.start
    problem: str | None = None  # why it starts trainers in another way than its name says

    def prepare(self, folder: RunFolder, environment: Mapping[str, str]) -> int | None:
        """Begin to load what `start` with the same arguments will need, and do not wait for it.

        Return None when `start` will not wait, either. Else return a descriptor that is readable
        when something has happened: call again then, and every few seconds, for what takes too long
        is given up here. Errors are raised by `start`.
        """
        return None

    @abstractmethod
    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Process:
        """Start a trainer on the folder's trial.json, with exactly this environment.

        Waits for what was not prepared. Raises OSError.
        """

    @abstractmethod
    def close(self) -> None:
        """End what helped to start them."""


class Spawn(Start):
    """Starts `command TRIAL.json RUN_DIR` in the run folder."""

    name = "spawn"

    def __init__(self, command: tuple[str, ...] = own_code.module_command("trainer")) -> None:
        self._command = command

    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Process:
        with folder.log.open("ab") as log:
            process = subprocess.Popen(
                [*self._command, str(folder.trial), str(folder.path)],
                env=environment,
                cwd=folder.path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            return Process(process.pid, self.name, process.wait)
        except OSError:
            process.kill()
            process.wait()
            raise

    def close(self) -> None:
        """Nothing helped."""

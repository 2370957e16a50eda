"""Starts a new Python for every attempt, which imports TensorFlow itself: launcher.start=spawn."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping

from scalemark.host.own_code import module_command
from scalemark.run_folder import RunFolder
from sweeper.starts.process import signal_group
from sweeper.starts.supervisor import Supervisor


class Spawn:
    """Starts `command TRIAL.json RUN_DIR` in the run folder."""

    name = "spawn"
    problem = None

    def __init__(self, command: tuple[str, ...] = module_command("trainer")) -> None:
        self._command = command
        self._supervisor = Supervisor()

    def prepare(self, folder: RunFolder, environment: Mapping[str, str]) -> None:
        """Do nothing."""

    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Spawned:
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
            return Spawned(process, self._supervisor)
        except OSError:
            process.kill()
            process.wait()
            raise

    def close(self) -> None:
        self._supervisor.close()


class Spawned:
    """A child of ours."""

    start = Spawn.name

    def __init__(self, process: subprocess.Popen[bytes], supervisor: Supervisor) -> None:
        self._process, self._supervisor = process, supervisor
        self.pid = process.pid
        self.descriptor = os.pidfd_open(process.pid)
        supervisor.add(self.pid)

    def signal_group(self, which: signal.Signals) -> None:
        signal_group(self.pid, self.descriptor, which)

    def reap(self) -> int:
        self._supervisor.remove(self.pid)
        os.close(self.descriptor)
        return self._process.wait()

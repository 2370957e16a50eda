"""A Slurm cluster of four virtual nodes of the tests' own, on this machine.

Each node has 8 GPUs, which are null devices, and 32 cores, whatever this machine has. Jobs of the partition high take the
nodes of those of main.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from tests import slurm_supervisor
from tests.kept import kept

T = TypeVar("T")

PATIENCE_S = 300.0  # it costs nothing where all is well, and a busy machine may need much
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One that runs."""

    folder: Path  # its state, and log/*.log

    @property
    def config(self) -> Path:
        """What SLURM_CONF is to name."""
        return self.folder / "slurm.conf"

    def run(self, *command: str) -> str:
        """What a Slurm program, or another one, prints when it is asked about this cluster."""
        environment = {**os.environ, "SLURM_CONF": str(self.config)}
        return subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def kill_node(self, name: str) -> None:
        """As if its power had gone: Slurm sees it some 15 s later."""
        slurm_supervisor.kill_node(self.folder, name)

    def restart_node(self, name: str) -> None:
        """It is idle a second or two later."""
        slurm_supervisor.start_node(self.folder, name)

    def running(self) -> list[int]:
        """Of all that runs in jobs."""
        return slurm_supervisor.jobs_processes(self.folder)


def until(look: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
    """What `look` gives when it first gives something that is true: nobody tells when a cluster has done its work."""
    end_s = time.monotonic() + timeout_s
    while not (seen := look()):
        if time.monotonic() > end_s:
            pytest.fail(f"still {seen!r} after {timeout_s:g} s", pytrace=True)
        time.sleep(0.05)
    return seen


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A new one, which is gone afterwards with all that its jobs started, also when this process is killed.

    It has ports and a folder of its own, so that any number of them run side by side.
    """
    with kept("the Slurm cluster", slurm_supervisor.__file__) as folder:
        yield Cluster(folder=Path(folder))


def obstacle(path: str | None = None) -> str:
    """Why no cluster can be started here; empty when one can."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin" if path is None else path
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        return f"no Slurm programs ({', '.join(missing)}): run scripts/install-slurm"
    return (
        ""
        if os.geteuid() == 0
        else "only root can start a cluster of null devices that count as GPUs"
    )

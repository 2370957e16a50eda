"""A Slurm cluster of four virtual nodes of the tests' own, on this machine: `python -m tests.slurm` runs one to try things on.

Each node has 8 GPUs, which are null devices, and 32 cores, whatever this machine has. Jobs of the partition high take the
nodes of those of main.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from tests import slurm_supervisor
from tests.kept import kept
from tests.slurm_supervisor import GPUS_PER_NODE, NODES

__all__ = ["GPUS_PER_NODE", "NODES", "Cluster", "cluster", "obstacle", "until"]

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

    def kill_controller(self) -> None:
        """As if it had crashed: nobody answers then."""
        slurm_supervisor.kill_controller(self.folder)

    def start_controller(self, *options: str) -> None:
        """Again: it answers then."""
        self.run("slurmctld", *options)
        until(lambda: slurm_supervisor.states(self.folder))

    def kill_node(self, name: str) -> None:
        """As if its power had gone: Slurm sees it some 15 s later."""
        slurm_supervisor.kill_node(self.folder, name)

    def restart_node(self, name: str) -> None:
        """It is idle a second or two later."""
        slurm_supervisor.start_node(self.folder, name)

    def processes(self, name: str = "") -> list[int]:
        """Of all that runs in jobs, on one node or on all."""
        return slurm_supervisor.jobs_processes(self.folder, name)


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


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.slurm",
        description=f"Starts a Slurm cluster of {len(NODES)} virtual nodes with {GPUS_PER_NODE} GPUs each on this machine, "
        "prints the variable that Slurm's programs want, and ends the cluster at Ctrl-C.",
    )
    parser.parse_args()
    if complaint := obstacle():
        sys.exit(complaint)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with cluster() as started, suppress(KeyboardInterrupt):
        print(
            f"nodes {', '.join(NODES)} are idle; logs in {started.folder / 'log'}; Ctrl-C ends all",
            file=sys.stderr,
        )
        print(f"export SLURM_CONF={started.config}", flush=True)
        while True:  # pause() would sleep through a signal that came just before it
            time.sleep(1.0)


if __name__ == "__main__":
    main()

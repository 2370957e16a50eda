"""Shows whether two attempts that must not share the host ever ran at once: each trial itself holds a lock of the kernel.

A child of the trial holds it, too, for as long as it lives: what an attempt leaves running counts as the attempt. Who finds the lock
held writes that down and goes on.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

from scalemark.records.attempt import Placement
from scalemark.run_folder import RunFolder

VARIABLE = (
    "SCALEMARK_CAMPAIGN_OVERLAP"  # environment variable: folder of the locks and of what was found
)
_FOUND = "found.txt"


def hold(folder: RunFolder) -> None:
    """From now to the end of this process and of a child of its: the host, or when it is shared each of the attempt's devices."""
    if not (named := os.environ.get(VARIABLE)):
        return
    placement = Placement.from_json(folder.placement.read_text())
    wanted = {"host": fcntl.LOCK_SH if placement.shares_host else fcntl.LOCK_EX}
    if placement.shares_host:
        wanted |= {f"device{number}": fcntl.LOCK_EX for number in placement.devices}
    held = []
    for name, mode in wanted.items():
        descriptor = os.open(Path(named) / name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            _tell(Path(named), f"{name} was in use when {folder.path.name} began")
        held.append(descriptor)
    subprocess.Popen(
        ["sleep", "3600"], pass_fds=held
    )  # a sampler, say: the end of the attempt must be its end


def found(folder: Path) -> list[str]:
    """A line for each overlap."""
    path = folder / _FOUND
    return path.read_text().splitlines() if path.exists() else []


def _tell(folder: Path, line: str) -> None:
    with (folder / _FOUND).open("a") as file:
        file.write(f"{line}\n")

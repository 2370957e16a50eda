"""Runs a command to its end and measures its wall time, CPU seconds and memory with all its
processes.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
LOOK_EVERY_S = 0.1  # at memory, where that is asked for
PATIENCE_S = 5.0  # with processes that outlive the one that was started
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


class BrokenError(Exception):
    """Raised where a side of a comparison did not do its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one command cost."""

    wall_s: float  # from the start of the process to its end
    cpu_s: float  # of the process and its descendants
    # most resident bytes of the process and its descendants at once; 0 when nobody looked
    peak_bytes: int


def run(command: Sequence[str], folder: Path, *, watch_memory: bool = False) -> Cost:
    """Run it in `folder`, with its output in output.txt there. Raises BrokenError, with the last
    lines, unless it ends with 0.
    """
    # processes whose parents end become ours: their CPU seconds count, and none stays behind
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    cpu_before_s = _children_cpu_s()
    start = time.monotonic()
    peak_bytes = 0
    with (folder / "output.txt").open("ab") as output:
        process = psutil.Popen(
            command,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            exit_code = None
            while exit_code is None:
                try:
                    exit_code = process.wait(LOOK_EVERY_S if watch_memory else None)
                except psutil.TimeoutExpired:
                    peak_bytes = max(peak_bytes, tree_bytes(process))
        finally:  # an interrupt ends it, too
            if process.poll() is None:
                process.terminate()
                _end_orphans(command)
    wall_s = time.monotonic() - start
    _end_orphans(command)
    if exit_code:
        last_lines = tail(folder / "output.txt")
        raise BrokenError(f"{' '.join(command)} ended with {exit_code}:\n{last_lines}")
    return Cost(wall_s=wall_s, cpu_s=_children_cpu_s() - cpu_before_s, peak_bytes=peak_bytes)


def sweep(*arguments: str) -> list[str]:
    """Return the command of our sweep; it leaves everything in the folder that it runs in."""
    return [sys.executable, str(ROOT / "sweep.py"), *arguments]


def environment() -> Mapping[str, str]:
    """Return variables that are equal for all sides: the project can be imported, TensorFlow is
    quiet, and no database is inherited.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "SCALEMARK_DB"}
    return inherited | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}


def tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-12:])


def tree_bytes(process: psutil.Process) -> int:
    """Return the resident bytes of a process and its descendants; shared pages count once per
    process.
    """
    total = 0
    for member in (process, *process.children(recursive=True)):
        try:
            total += member.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def _end_orphans(command: Sequence[str]) -> None:
    _, left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=PATIENCE_S)
    for orphan in left:
        print(f"  {' '.join(command)[:100]} left {orphan} behind; it is killed", file=sys.stderr)
        orphan.send_signal(signal.SIGKILL)
    psutil.wait_procs(left, timeout=PATIENCE_S)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

"""Measures what the orchestrator itself costs while a trial runs, its children apart: share of a
core, and memory.

With one trial and with a large grid pending, with a live view on a terminal and without.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from benchmarks.orchestration.cost import environment, sweep, tail
from benchmarks.orchestration.settings import BrokenError, Settings, rounds
from benchmarks.orchestration.trial_folders import TINY
from benchmarks.ratio import Ratio, Want

CORE_LIMIT = 0.02
MEMORY_LIMIT_BYTES = 300e6
PATIENCE_S = 600.0  # until trials run
END_PATIENCE_S = 30.0  # from SIGINT to the end
LOOK_EVERY_S = 0.2
TERMINAL_SIZE = (40, 120)  # rows, columns
INTERRUPTED = 130


def measure(settings: Settings) -> list[Ratio]:
    grids = {
        "one long trial": ["seed=1"],
        f"{settings.num_planned} pending": ["-m", f"seed=range(1,{settings.num_planned + 1})"],
    }
    sides = {
        f"{grid}, {'' if terminal else 'no '}terminal": (arguments, terminal)
        for grid, arguments in grids.items()
        for terminal in (True, False)
    }
    seen: dict[str, list[Seen]] = {side: [] for side in sides}
    for order in rounds(settings.num_rounds, list(sides)):
        for side in order:
            arguments, terminal = sides[side]
            with tempfile.TemporaryDirectory() as folder:
                seen[side].append(_watch(arguments, Path(folder), settings.watched_s, terminal))
            print(f"  {side}: {seen[side][-1]}", file=sys.stderr)
    rows = []
    for side, found in seen.items():
        shares = [(one.core_share, CORE_LIMIT) for one in found]
        peaks = [(one.peak_bytes / 1e6, MEMORY_LIMIT_BYTES / 1e6) for one in found]
        for metric, pairs in {"share of a core": shares, "peak MB": peaks}.items():
            names = {"name": "idle_cost", "ours": side, "peer": "limit", "metric": metric}
            rows.append(Ratio(**names, pairs=pairs, target=1.0, want=Want.AT_MOST))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Of the process of the sweep, without its children."""

    core_share: float  # CPU seconds of all its threads per second, while a trial ran
    resident_bytes: int  # at the end of that time
    peak_bytes: int  # since it started, planning included


def _watch(arguments: list[str], folder: Path, watched_s: float, terminal: bool) -> Seen:
    """Start a sweep of trials that take long, wait until one takes steps, look at the sweep's own
    process, and interrupt it.
    """
    with _sweep([*arguments, *TINY, f"min_window_s={PATIENCE_S:g}"], folder, terminal) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not any(path.stat().st_size for path in folder.glob("runs/*/*/steps.jsonl")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BrokenError(
                    f"no step within {PATIENCE_S:g} s:\n{tail(folder / 'output.txt')}"
                )
            time.sleep(LOOK_EVERY_S)
        start, cpu_before_s = time.monotonic(), _cpu_s(process.pid)
        time.sleep(watched_s)
        if process.poll() is not None:
            raise BrokenError(
                f"the sweep ended while it was looked at:\n{tail(folder / 'output.txt')}"
            )
        seen = Seen(
            core_share=(_cpu_s(process.pid) - cpu_before_s) / (time.monotonic() - start),
            resident_bytes=_status_bytes(process.pid, "VmRSS"),
            peak_bytes=_status_bytes(process.pid, "VmHWM"),
        )
        process.send_signal(signal.SIGINT)
        if (exit_code := process.wait(END_PATIENCE_S)) != INTERRUPTED:
            raise BrokenError(
                f"interrupted, the sweep ended with {exit_code}:\n{tail(folder / 'output.txt')}"
            )
    return seen


@contextmanager
def _sweep(arguments: list[str], folder: Path, terminal: bool) -> Iterator[subprocess.Popen[bytes]]:
    """Its stderr is a terminal, or a file; killed at the end where it still runs, and its trials
    with it.
    """
    with (folder / "output.txt").open("ab") as output:
        ours, theirs = pty.openpty() if terminal else (None, output.fileno())
        if terminal:
            termios.tcsetwinsize(theirs, TERMINAL_SIZE)
        process = subprocess.Popen(
            sweep(*arguments),
            cwd=folder,
            env={**environment(), "TERM": "xterm"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=theirs,
        )
        if ours is not None:
            os.close(theirs)
            Thread(target=_drain, args=(ours, output.fileno()), daemon=True).start()
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _drain(terminal: int, output: int) -> None:
    """What is drawn on the terminal, into a file: somebody must read it, or the sweep waits."""
    with open(terminal, "rb", buffering=0) as drawn:
        while select.select([drawn], [], []):
            try:
                os.write(output, drawn.read(65536))
            except OSError:  # Linux says EIO when the other side is closed
                return


def _cpu_s(pid: int) -> float:
    """Of all its threads, without its children: Linux's clock of that process, as
    clock_getcpuclockid(3) numbers it.

    /proc/PID/stat counts in ticks of 10 ms, which is half of what may be used in a second.
    """
    return time.clock_gettime((~pid << 3) | 2)


def _status_bytes(pid: int, key: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))

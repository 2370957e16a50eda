"""Counts what passes the link of host 0 while a distributed trial steps: by its own network
namespace, from outside.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scalemark.records.outcomes import Doing, Phase
from scalemark.run_folder.folder import RunFolder

LINK = "eth0"
LOOK_EVERY_S = 0.1
_RECEIVED, _SENT = 0, 8  # columns of /proc/PID/net/dev after the name


@dataclass(frozen=True, slots=True)
class Look:
    time_s: float
    sent: int
    received: int


@dataclass(slots=True)
class Counts:
    """By run folder."""

    looks: dict[Path, list[Look]] = field(default_factory=lambda: defaultdict(list))

    def bytes_per_s(self, folder: Path) -> tuple[float, float] | None:
        """Sent and received during its measured steps, headers included; None of a trial without a
        link of its own.
        """
        looks = self.looks.get(folder, [])
        if looks:
            begun_s = looks[0].time_s + _warm_up_s(folder)
            looks = [look for look in looks if look.time_s >= begun_s]
        if len(looks) < 2 or looks[-1].time_s == looks[0].time_s:
            return None
        took_s = looks[-1].time_s - looks[0].time_s
        return (looks[-1].sent - looks[0].sent) / took_s, (
            looks[-1].received - looks[0].received
        ) / took_s


@contextmanager
def counting(runs_dir: Path) -> Iterator[Counts]:
    """Of all trials below that folder, meanwhile."""
    counts, ended = Counts(), threading.Event()
    thread = threading.Thread(target=_count, args=(runs_dir.resolve(), counts, ended))
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()


def _count(runs_dir: Path, counts: Counts, ended: threading.Event) -> None:
    while not ended.wait(LOOK_EVERY_S):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                folder = (process / "cwd").readlink()
                if folder.is_relative_to(runs_dir) and _is_first(process) and _steps(folder):
                    counts.looks[folder] += _look(process)
            except OSError:  # it has ended
                continue


def _is_first(process: Path) -> bool:
    """Worker 0, forked or a Python of its own."""
    if (process / "comm").read_text().strip() == "worker-0":
        return True
    arguments = (process / "cmdline").read_text().split("\0")
    return {"--job_name=worker", "--task_index=0"} <= set(arguments)


def _warm_up_s(folder: Path) -> float:
    """From its first step on."""
    samples = (json.loads(line) for line in RunFolder(folder).steps.read_text().splitlines())
    return next(float(sample["start_s"]) for sample in samples if sample["phase"] == Phase.MEASURE)


def _steps(folder: Path) -> bool:
    doing = RunFolder(folder).doing
    return doing.exists() and doing.read_text().strip() == Doing.STEPPING


def _look(process: Path) -> list[Look]:
    for line in (process / "net" / "dev").read_text().splitlines():
        name, _, reported = line.partition(":")
        if name.strip() == LINK:
            columns = reported.split()
            return [Look(time.monotonic(), int(columns[_SENT]), int(columns[_RECEIVED]))]
    return []

"""Cores that other processes took during the measurement, hypervisor included, read from
/proc/stat.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scalemark.records.cluster import Cluster
from scalemark.records.placement import ORCHESTRATOR_VARIABLE, Placement

_STAT = Path("/proc/stat")
# user, nice, system, irq, softirq, steal; not idle, iowait, and guests are in user
_BUSY = (0, 1, 2, 5, 6, 7)

_PARENT = 1  # in /proc/PID/stat, counted from the state
_CPU_TICKS = (11, 12, 13, 14)  # user and system, own and of ended children


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Seconds since some beginning."""

    time_s: float
    own_cpu_s: float  # of this process and its ended children, or of all ranks
    # CPU this process may run on -> busy with anything; none where the kernel does not say
    busy_s: dict[int, float] | None


def now(
    stat: Path = _STAT,
    cpus: Callable[[], set[int]] = lambda: os.sched_getaffinity(0),
    clock: Callable[[], float] = time.perf_counter,
    own_cpu: Callable[[], float] | None = None,
) -> Moment:
    try:
        busy_s = busy_by_cpu(stat.read_text(), cpus(), os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError):
        busy_s = None
    return Moment(time_s=clock(), own_cpu_s=(own_cpu or _own_cpu_s)(), busy_s=busy_s)


def tells_ours(cluster: Cluster | None, given: Placement | None) -> bool:
    """Whether it is known which processes of this host are the trial's: it is one, or its ranks are
    all of what started them.

    Ranks that were started by hand are children of a shell or of nobody; those of srun and Ray have
    a parent each.
    """
    started_alike = given is None or not given.rank_start
    return cluster is None or (
        started_alike and os.environ.get(ORCHESTRATOR_VARIABLE) == str(os.getppid())
    )


def cpu_of_ranks_s(proc: Path = Path("/proc"), parent: int | None = None) -> float:
    """Of the ranks of a distributed trial on this host, this process among them: all that `parent`
    (its own) has started.
    """
    wanted = os.getppid() if parent is None else parent
    ticks = 0
    for stat in proc.glob("[0-9]*/stat"):
        try:
            told = stat.read_text()
        except OSError:  # it has ended
            continue
        after_name = told.rpartition(")")[2].split()  # state, parent, ...; the name may have spaces
        if int(after_name[_PARENT]) == wanted:
            ticks += sum(int(after_name[column]) for column in _CPU_TICKS)
    return ticks / os.sysconf("SC_CLK_TCK")


def cores_taken_by_others(before: Moment, after: Moment) -> float | None:
    """Mean over the window, 0 or more. The kernel counts in ticks of some 10 ms: short windows tell
    little.
    """
    window_s = after.time_s - before.time_s
    if before.busy_s is None or after.busy_s is None or window_s <= 0:
        return None
    common = before.busy_s.keys() & after.busy_s.keys()
    if not common:
        return None
    busy_s = sum(after.busy_s[cpu] - before.busy_s[cpu] for cpu in common)
    return max(0.0, (busy_s - (after.own_cpu_s - before.own_cpu_s)) / window_s)


def busy_by_cpu(stat: str, cpus: set[int], ticks_per_s: int) -> dict[int, float]:
    """Busy seconds since boot of these CPUs, from the text of /proc/stat. Raises ValueError when it
    is no such text.
    """
    busy_s = {}
    for line in stat.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu" and int(name[3:]) in cpus:
            ticks = [int(value) for value in values]
            busy_s[int(name[3:])] = (
                sum(ticks[column] for column in _BUSY if column < len(ticks)) / ticks_per_s
            )
    if not busy_s:
        raise ValueError("no line for any of the CPUs this process may run on")
    return busy_s


def _own_cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)

"""Measures the cores that other processes, the hypervisor included, take from a trial.

All of it is read from /proc/stat, whose ticks of some 10 ms say nothing about short windows.
"""

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, Cluster, Placement

_STAT = Path("/proc/stat")
_LEAST_WINDOW_S = 0.5
# user, nice, system, irq, softirq, steal; not idle and iowait; guests are counted in user
_BUSY = (0, 1, 2, 5, 6, 7)
_PARENT = 1  # in /proc/PID/stat, counted from the state
_CPU_TICKS = slice(11, 15)  # user and system, of the process and of its ended children


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Seconds since some beginning."""

    time_s: float
    own_cpu_s: float  # of the trial's processes on this host
    # CPU this process may run on -> busy with anything; none where the kernel does not say
    busy_s: dict[int, float] | None


def own_cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def cpu_of_ranks_s(proc: Path = Path("/proc"), parent: int | None = None) -> float:
    """Return the CPU seconds of all that `parent` (this process's own) has started on this host."""
    wanted = os.getppid() if parent is None else parent
    ticks = 0
    for stat in proc.glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:  # it has ended
            continue
        after_name = text.rpartition(")")[2].split()  # the name before it may have spaces
        if int(after_name[_PARENT]) == wanted:
            ticks += sum(map(int, after_name[_CPU_TICKS]))
    return ticks / os.sysconf("SC_CLK_TCK")


def clock_of_trial(cluster: Cluster | None) -> Callable[[], float]:
    """Return the clock of the CPU seconds of a trial's processes on this host."""
    return cpu_of_ranks_s if cluster else own_cpu_s


def now(own_cpu: Callable[[], float] = own_cpu_s, stat: Path = _STAT) -> Moment:
    try:
        cpus = os.sched_getaffinity(0)
        busy_s = busy_by_cpu(stat.read_text(), cpus, os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError):
        busy_s = None
    return Moment(time_s=time.perf_counter(), own_cpu_s=own_cpu(), busy_s=busy_s)


def knows_own_processes(cluster: Cluster | None, given: Placement | None) -> bool:
    """Say whether `cpu_of_ranks_s` counts the trial's processes on this host, all and no others.

    Ranks that were started by hand are children of a shell; those of srun and Ray have a parent
    each.
    """
    if cluster is None:
        return True
    if given is not None and given.rank_start:
        return False
    return os.environ.get(ORCHESTRATOR_VARIABLE) == str(os.getppid())


def cores_taken_by_others(before: Moment, after: Moment) -> float | None:
    """Return the mean over the window, 0 to all of them; None where the kernel does not say, or
    too little of it.
    """
    window_s = after.time_s - before.time_s
    if before.busy_s is None or after.busy_s is None or window_s < _LEAST_WINDOW_S:
        return None
    common = before.busy_s.keys() & after.busy_s.keys()
    if not common:
        return None
    busy_s = sum(after.busy_s[cpu] - before.busy_s[cpu] for cpu in common)
    cores = (busy_s - (after.own_cpu_s - before.own_cpu_s)) / window_s
    return min(max(0.0, cores), float(len(common)))


def busy_by_cpu(stat: str, cpus: set[int], ticks_per_s: int) -> dict[int, float]:
    """Return the busy seconds since boot of these CPUs, from the text of /proc/stat.

    Raises ValueError when it is no such text.
    """
    busy_s = {}
    for line in stat.splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu" and int(name[3:]) in cpus:
            # old kernels have fewer columns
            busy = [int(values[column]) for column in _BUSY if column < len(values)]
            busy_s[int(name[3:])] = sum(busy) / ticks_per_s
    if not busy_s:
        raise ValueError("no line for any of the CPUs this process may run on")
    return busy_s

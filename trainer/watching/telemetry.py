"""Watches a trial's GPUs from a process of its own, `python -m trainer.watching.telemetry`.

```
  trainer  ── watching() ──►  sampler: spare core, lowest priority ──►  telemetry.jsonl
     └── summarize(): samples of the measured window only  ◄──────────  gpu_errors.jsonl
```

Where no core is spare it is the trainer's last one. The trainer keeps all its cores: TensorFlow
sized its pools by them, and a narrower set would measure another machine. Two samples a second
cost that core some milliseconds each. Between samples it waits for Xid errors.

Cores that other processes, the hypervisor included, take from a trial are read from /proc/stat,
whose ticks of some 10 ms say nothing about short windows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO, TypeVar

import psutil
import pynvml

from scalemark.host.gpu_libraries import memory_in_use, processes_of, started_by_scalemark
from scalemark.host.own_code import module_command, python_path
from scalemark.host.processes import ORCHESTRATOR_VARIABLE, die_with
from scalemark.records.attempt import Cluster, Placement
from scalemark.records.machine import DeviceKind, XidError
from scalemark.records.measurement import GpuTelemetry
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from scalemark.text.wording import counted

_STAT = Path("/proc/stat")
_LEAST_WINDOW_S = 0.5
# user, nice, system, irq, softirq, steal; not idle and iowait; guests are counted in user
_BUSY = (0, 1, 2, 5, 6, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMoment:
    """Seconds since some beginning."""

    time_s: float
    own_cpu_s: float  # of the trial's processes on this host
    # CPU this process may run on -> busy with anything; none where the kernel does not say
    busy_s: dict[int, float] | None


def own_cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def cpu_of_ranks_s() -> float:
    """Return the CPU seconds of all that the parent of this process has started on this host."""
    seconds = 0.0
    for rank in psutil.Process(os.getppid()).children():
        with suppress(psutil.Error):  # it has ended
            times = rank.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def now(own_cpu: Callable[[], float] = own_cpu_s, stat: Path = _STAT) -> HostMoment:
    try:
        cpus = os.sched_getaffinity(0)
        busy_s = busy_by_cpu(stat.read_text(), cpus, os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError):
        busy_s = None
    return HostMoment(time_s=time.perf_counter(), own_cpu_s=own_cpu(), busy_s=busy_s)


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


def cores_taken_by_others(before: HostMoment, after: HostMoment) -> float | None:
    """Return the mean over the window, 0 to all of them; None where too little is known."""
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


INTERVAL_S = 0.5  # asking NVML costs time on the GPU's driver, too
SHORTEST_ENERGY_S = 1.0  # the counter of energy ticks some ten times a second
_LOWEST_PRIORITY = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """All watched GPUs at one moment: a line of `telemetry.jsonl`."""

    time_s: float  # time.monotonic(), which all processes of a Linux machine share
    gpus: list[NvmlReading]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> GpuSample:
        values = json.loads(text)
        return cls(time_s=values["time_s"], gpus=[NvmlReading(**gpu) for gpu in values["gpus"]])


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedGpus:
    # in the order of the replicas; none where the launcher named the GPUs otherwise
    uuids: Sequence[str]
    num_wanted: int  # with fewer, the measurement is in doubt


def watched(spec: TrialSpec, given: Placement | None) -> WatchedGpus:
    """Return the trial's GPUs in the machine of the process that measures it; say in the log why
    some cannot be watched.

    Hosts that are processes of one machine are watched together, as the launcher gave them.
    """
    if spec.device_kind != DeviceKind.GPU:
        return WatchedGpus(uuids=(), num_wanted=0)
    if spec.hosts > 1 and given is not None and not given.rank_start:
        visible, num_wanted = given.visible_devices, spec.num_gpus
    else:
        visible, num_wanted = os.environ.get("CUDA_VISIBLE_DEVICES", ""), spec.gpus_per_host
    uuids = [uuid for uuid in visible.split(",")[:num_wanted] if uuid.startswith(("GPU-", "MIG-"))]
    if len(uuids) < num_wanted:
        print(
            f"no telemetry of {counted(num_wanted - len(uuids), 'GPU')}: CUDA_VISIBLE_DEVICES "
            f"names {visible or 'none'}; name GPUs by UUID, as nvidia-smi -L lists them",
            file=sys.stderr,
        )
    return WatchedGpus(uuids=uuids, num_wanted=num_wanted)


@contextmanager
def watching(uuids: Sequence[str], path: Path, spare_core: int | None = None) -> Iterator[None]:
    """Sample these GPUs into the file while the block runs, from the spare core if there is one.

    Never fails: a sampler that cannot work says so in the log and leaves no samples.
    """
    if not uuids:
        yield
        return
    options = ["--out", str(path), "--trainer", str(os.getpid())]
    if spare_core is not None:
        options += ["--core", str(spare_core)]
    try:
        sampler = subprocess.Popen(
            module_command("trainer.watching.telemetry", *options, "--uuids", *uuids),
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": python_path(os.environ)},
        )
    except OSError as error:
        print(f"no GPU telemetry: {error}", file=sys.stderr)
        yield
        return
    try:
        yield
    finally:
        sampler.kill()  # it writes whole lines at once, and holds nothing else
        sampler.wait()


def summarize(path: Path, start_s: float, end_s: float) -> tuple[GpuTelemetry, ...]:
    """Return what was seen per GPU between two moments of time.monotonic(), if anything.

    Errors count from the trial's start on: what they damaged stays.
    """
    readings: dict[str, list[NvmlReading]] = {}
    first: dict[str, NvmlReading] = {}
    times_s = []
    for sample in _samples_in(path):
        is_in_window = start_s <= sample.time_s <= end_s
        if is_in_window:
            times_s.append(sample.time_s)
        for reading in sample.gpus:
            first.setdefault(reading.uuid, reading)
            if is_in_window:
                readings.setdefault(reading.uuid, []).append(reading)
    errors = RunFolder(path.parent).read_gpu_errors()
    summaries = []
    for uuid, seen in readings.items():
        # one that the driver cannot name any more may be any of them
        xids = {error.xid for error in errors if error.uuid in (uuid, "")}
        summaries.append(_summary(first[uuid], seen, times_s, sorted(xids)))
    return tuple(summaries)


def take_samples(
    read: Callable[[], list[NvmlReading]],
    out: TextIO,
    num_samples: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write a line per interval; after a late sample the next keeps its distance.

    Without `num_samples`, it goes on until the process is ended.
    """
    due_s = clock()
    taken = 0
    while num_samples is None or taken < num_samples:
        out.write(GpuSample(time_s=clock(), gpus=read()).to_json() + "\n")
        out.flush()
        taken += 1
        due_s = max(due_s + INTERVAL_S, clock())
        sleep(due_s - clock())


def _summary(
    first: NvmlReading, seen: list[NvmlReading], times_s: Sequence[float], xids: Sequence[int]
) -> GpuTelemetry:
    """Sum up what was seen in the window; `first` is the first reading of the trial."""

    def known(name: str) -> list[Any]:
        values = [getattr(reading, name) for reading in seen]
        return [value for value in values if value is not None]

    def combined(combine: Callable[[list[Any]], float], name: str) -> Any:
        values = known(name)
        return combine(values) if values else None

    def since_first(name: str) -> int | None:
        before, after = getattr(first, name), getattr(seen[-1], name)
        if before is None or after is None:
            return None
        return after - before

    reasons = set(chain.from_iterable(known("throttle_reasons")))
    return GpuTelemetry(
        uuid=seen[0].uuid,
        num_samples=len(seen),
        sm_clock_mhz=combined(statistics.median, "sm_clock_mhz"),
        max_sm_clock_mhz=combined(max, "max_sm_clock_mhz"),
        power_w=_power_by_energy(seen, times_s) or combined(statistics.fmean, "power_w"),
        power_limit_w=combined(min, "power_limit_w"),
        temperature_c=combined(max, "temperature_c"),
        utilization=combined(statistics.fmean, "utilization"),
        memory_used_bytes=combined(max, "memory_used_bytes"),
        throttle_reasons=tuple(sorted(reasons - {GPU_IDLE})),
        num_foreign_processes=combined(max, "num_others"),
        xids=tuple(xids),
        num_corrected_errors=since_first("num_corrected_errors"),
        num_uncorrected_errors=since_first("num_uncorrected_errors"),
    )


def _power_by_energy(seen: list[NvmlReading], times_s: Sequence[float]) -> float | None:
    """Divide the energy between the first and the last sample by the time; None where unknown.

    It is all that was used in this time, where samples of power look back by up to a second.
    """
    first, last = seen[0].energy_j, seen[-1].energy_j
    took_s = times_s[-1] - times_s[0]
    if first is None or last is None or last < first or took_s < SHORTEST_ENERGY_S:
        return None
    return (last - first) / took_s


def _samples_in(path: Path) -> list[GpuSample]:
    """Read all complete lines; the sampler's end may have cut off the last one."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    return [GpuSample.from_json(line) for line in lines if line.endswith("\n")]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer.watching.telemetry", description=__doc__
    )
    parser.add_argument("--uuids", nargs="+", required=True, help="GPUs, as in nvidia-smi -L")
    parser.add_argument("--out", type=Path, required=True, help="file, a JSON line per sample")
    parser.add_argument("--trainer", type=int, help="process id of the parent, to end with it")
    parser.add_argument("--core", type=int, help="CPU core to run on (default: the last one)")
    options = parser.parse_args(arguments)
    if options.trainer:
        die_with(options.trainer)
    core = options.core
    if options.core is None:
        core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    os.nice(_LOWEST_PRIORITY)
    try:
        gpus = NvmlGpus(options.uuids)
    except pynvml.NVMLError as error:
        print(f"no GPU telemetry: NVML: {error}", file=sys.stderr)
        return 1
    errors = RunFolder(options.out.parent).gpu_errors
    with options.out.open("w") as out, errors.open("w") as errors_out:
        events = XidEvents(gpus.handles, errors_out)
        take_samples(gpus.read, out, sleep=events.sleep)
    return 0


Answer = TypeVar("Answer")

GPU_IDLE = "gpu_idle"  # clocks are low because nothing runs: no throttling

_REASONS = {  # bit of nvml.h -> name
    0x001: GPU_IDLE,
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlReading:
    """One GPU at one moment; None for what it does not report."""

    uuid: str
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None  # the most this GPU can
    power_w: float | None  # a mean over the last second on many GPUs
    power_limit_w: float | None  # the limit enforced
    temperature_c: int | None
    utilization: float | None  # share of the last moments with a kernel running, 0..1
    memory_used_bytes: int | None  # by all processes
    throttle_reasons: list[str] | None
    num_others: int | None  # other processes that compute on it; None where none are listed
    energy_j: float | None = None  # since the driver was loaded
    own_bytes: int | None = None  # by the trial's processes
    # memory errors since then, as ECC found them
    num_corrected_errors: int | None = None
    num_uncorrected_errors: int | None = None


class NvmlGpus:
    """NVML opened for some GPUs. Raises pynvml.NVMLError where there is no NVML or no such GPU."""

    def __init__(self, uuids: Sequence[str]) -> None:
        pynvml.nvmlInit()
        self.handles = {uuid: pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids}

    def read(self) -> list[NvmlReading]:
        return [_read(uuid, handle) for uuid, handle in self.handles.items()]


def reason_names(bits: int) -> list[str]:
    """Name NVML's bits; one that is not known yet gets its number."""
    names = []
    for place in range(bits.bit_length()):
        bit = 1 << place
        if bits & bit:
            names.append(_REASONS.get(bit, hex(bit)))
    return names


def own_bytes(computing: Sequence[Any] | None) -> int | None:
    """Return what the processes that scalemark has started hold of a GPU; None where the driver
    does not tell. One process alone is ours, also in a container that counts processes otherwise.
    """
    if computing is None:
        return None
    origins = [started_by_scalemark(process.pid) for process in computing]
    ours = [process for process, is_ours in zip(computing, origins, strict=True) if is_ours]
    if len(computing) == 1 and origins == [None]:
        ours = list(computing)
    elif None in origins:
        return None
    used = [process.usedGpuMemory for process in ours]
    return None if None in used else sum(used)


def peak_own_bytes(path: Path) -> int | None:
    """Return the most that the trial's processes held of any GPU, of samples from its start to its
    end; None where not every GPU was told of.
    """
    peaks: dict[str, int] = {}
    for sample in _samples_in(path):
        for reading in sample.gpus:
            if reading.own_bytes is None:
                return None
            peaks[reading.uuid] = max(peaks.get(reading.uuid, 0), reading.own_bytes)
    return max(peaks.values(), default=0) or None


def num_others(pids: Collection[int]) -> int | None:
    """Count the processes that scalemark has not started; None without any.

    Some containers see the host's numbers, and cannot tell which are ours: one is taken for ours.
    """
    if not pids:
        return None
    origins = [started_by_scalemark(pid) for pid in set(pids)]
    if all(origin is None for origin in origins):
        return len(origins) - 1
    return len(origins) - origins.count(True)


def _read(uuid: str, handle: object) -> NvmlReading:
    def asked(question: Callable[..., Answer], *arguments: object) -> Answer | None:
        try:
            return question(handle, *arguments)
        except pynvml.NVMLError:
            return None

    computing = processes_of(handle).computing
    return NvmlReading(
        uuid=uuid,
        sm_clock_mhz=asked(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        max_sm_clock_mhz=asked(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        power_w=asked(lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
        power_limit_w=asked(lambda gpu: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000),
        temperature_c=asked(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        utilization=asked(lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100),
        memory_used_bytes=memory_in_use(handle),
        throttle_reasons=asked(lambda gpu: reason_names(_reasons(gpu))),
        num_others=num_others([process.pid for process in computing or ()]),
        own_bytes=own_bytes(computing),
        energy_j=asked(lambda gpu: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000),
        num_corrected_errors=asked(_num_errors, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        num_uncorrected_errors=asked(_num_errors, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    )


def _num_errors(handle: object, kind: int) -> int:
    return int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC))


def _reasons(handle: object) -> int:
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError_FunctionNotFound:  # drivers before 535 have it under its old name only
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


class XidEvents:
    """Writes each kind of error of each GPU once; without an event this is a sleep.

    Errors of a GPU that a MIG device is cut from are written without a name.
    """

    def __init__(
        self,
        handles: Mapping[str, Any],
        out: TextIO,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Say on stderr where GPUs tell of no errors; then it only sleeps."""
        self._out, self._clock, self._sleep = out, clock, sleep
        self._uuids = frozenset(handles)
        self._written: set[tuple[str, int]] = set()
        self._events: Any = None
        registered: set[str] = set()
        try:
            self._events = pynvml.nvmlEventSetCreate()
            for handle in handles.values():
                if pynvml.nvmlDeviceIsMigDeviceHandle(handle):
                    handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
                gpu = pynvml.nvmlDeviceGetUUID(handle)
                if gpu not in registered:
                    kind = pynvml.nvmlEventTypeXidCriticalError
                    pynvml.nvmlDeviceRegisterEvents(handle, kind, self._events)
                    registered.add(gpu)
        except pynvml.NVMLError as error:
            self._give_up(error)

    def sleep(self, duration_s: float) -> None:
        """Wait so long, and write the errors that come meanwhile."""
        end_s = self._clock() + duration_s
        left_s = duration_s
        while left_s > 0:
            if self._events is None:
                self._sleep(left_s)
            else:
                self._wait(left_s)
            left_s = end_s - self._clock()

    def _wait(self, timeout_s: float) -> None:
        try:
            event = pynvml.nvmlEventSetWait(self._events, math.ceil(timeout_s * 1000))
        except pynvml.NVMLError_Timeout:
            return
        except pynvml.NVMLError as error:
            self._give_up(error)
            return
        try:
            gpu = pynvml.nvmlDeviceGetUUID(event.device)
        except pynvml.NVMLError:  # it is lost
            gpu = ""
        reported = XidError(
            time_s=self._clock(), uuid=gpu if gpu in self._uuids else "", xid=event.eventData
        )
        if (reported.uuid, reported.xid) not in self._written:
            self._written.add((reported.uuid, reported.xid))
            self._out.write(json.dumps(asdict(reported)) + "\n")
            self._out.flush()
            print(reported, file=sys.stderr, flush=True)

    def _give_up(self, error: pynvml.NVMLError) -> None:
        self._events = None
        print(f"Xid errors of GPUs are not watched: NVML: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

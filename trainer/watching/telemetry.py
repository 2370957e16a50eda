"""Watches a trial's GPUs from a process of its own, `python -m trainer.watching.telemetry`.

```
  trainer  ── watching() ──►  sampler: spare core, lowest priority ──►  telemetry.jsonl
     └── summarize(): samples of the measured window only  ◄──────────  gpu_errors.jsonl
```

Where no core is spare it is the trainer's last one. The trainer keeps all its cores: TensorFlow
sized its pools by them, and a narrower set would measure another machine. Two samples a second
cost that core some milliseconds each. Between samples it waits for Xid errors.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import pynvml

from scalemark.host.own_code import module_command, python_path
from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import GpuTelemetry
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from scalemark.text.wording import counted
from trainer import own_process
from trainer.watching.nvml import GPU_IDLE, NvmlGpus, NvmlReading, XidEvents

INTERVAL_S = 0.5
SHORTEST_INTERVAL_S = 0.25  # asking NVML costs time on the GPU's driver, too
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
def watching(
    uuids: Sequence[str], path: Path, spare_core: int | None = None, interval_s: float = INTERVAL_S
) -> Iterator[None]:
    """Sample these GPUs into the file while the block runs, from the spare core if there is one.

    Never fails: a sampler that cannot work says so in the log and leaves no samples.
    """
    if not uuids:
        yield
        return
    options = ["--out", str(path), "--interval", str(interval_s), "--trainer", str(os.getpid())]
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
    interval_s: float,
    num_samples: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write a line per interval; after a late sample the next keeps its distance.

    Without `num_samples`, it goes on until the process is ended.
    """
    interval_s = max(interval_s, SHORTEST_INTERVAL_S)
    due_s = clock()
    taken = 0
    while num_samples is None or taken < num_samples:
        out.write(GpuSample(time_s=clock(), gpus=read()).to_json() + "\n")
        out.flush()
        taken += 1
        due_s = max(due_s + interval_s, clock())
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
        return None if before is None or after is None else after - before

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
    parser.add_argument("--interval", type=float, default=INTERVAL_S, help="in seconds")
    parser.add_argument("--trainer", type=int, help="process id of the parent, to end with it")
    parser.add_argument("--core", type=int, help="CPU core to run on (default: the last one)")
    options = parser.parse_args(arguments)
    if options.trainer:
        own_process.die_with(options.trainer)
    core = max(os.sched_getaffinity(0)) if options.core is None else options.core
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
        take_samples(gpus.read, out, options.interval, sleep=events.sleep)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Does anything run: one trial, and what the driver sees of it."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.gpu.kit import Finding, Judged, Kit, Verdict
from benchmarks.gpu.trials import Trial, all_completed, sweep

ABOUT = "one trial, and what the driver sees of it"
LINES: Mapping[str, str] = {
    "trial": "a trial runs from start to end",
    "telemetry": "clock, power and temperature of the trial's GPU are recorded",
    "pinning": "nvidia-smi sees the trial on the GPU that it was given, and on no other",
}
_QUERY = ("nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader")
MINUTES: Mapping[str, float] = {"gpus": 1.25, "gpu": 1.25, "cpu": 0.4}


def run(kit: Kit) -> Iterator[Finding]:
    model = "resnet18_cifar" if kit.box.on_gpus else "lenet5"
    seen: set[str] = set()

    def watch(pid: int, _runs: Path) -> None:
        seen.update(gpus_of(pid))

    trials = []
    for trial in sweep(
        kit,
        "smoke",
        [f"model={model}", "precision=fp32"],
        variables=kit.box.mask(-1) if kit.box.on_gpus else None,  # the last: 0 is what all take
        watch=watch if kit.box.on_gpus else None,
    ):
        trials.append(trial)
        yield from trial.numbers()
    yield all_completed("trial", trials, must_run=True)
    if not kit.box.on_gpus:
        for line in ("telemetry", "pinning"):
            yield Judged(line=line, verdict=Verdict.NOT_RUN, why="CPU devices have none")
        return
    gpu = kit.box.gpus[-1]
    if gpu.mig_parent:
        why = "a slice of a GPU has no clock, power or temperature of its own"
        yield Judged(line="telemetry", verdict=Verdict.NOT_RUN, why=why)
    else:
        yield telemetry_is_there(trials)
    yield is_pinned(seen, gpu.mig_parent or gpu.uuid)  # nvidia-smi lists whole GPUs


def telemetry_is_there(trials: list[Trial]) -> Judged:
    """Judge whether the driver's values of each GPU are there, and can be."""
    if not any(trial.measurement for trial in trials):
        return Judged(line="telemetry", verdict=Verdict.NOT_RUN, why="no trial was measured")
    problems = []
    seen = [gpu for trial in trials if trial.result for gpu in trial.result.gpu_telemetry]
    for gpu in seen:
        values = {
            "clock": gpu.sm_clock_mhz,
            "power": gpu.power_w,
            "temperature": gpu.temperature_c,
        }
        problems += [f"{gpu.uuid}: {what}={value}" for what, value in values.items() if not value]
    if not seen:
        problems = ["no GPU was sampled"]
    if problems:
        return Judged(line="telemetry", verdict=Verdict.MISSED, why="; ".join(problems))
    described = [
        f"{gpu.sm_clock_mhz:.0f} MHz, {gpu.power_w:.0f} W, {gpu.temperature_c} °C" for gpu in seen
    ]
    return Judged(line="telemetry", verdict=Verdict.MET, why="; ".join(described))


def is_pinned(seen: set[str], wanted: str) -> Judged:
    """Judge by the UUIDs that nvidia-smi listed for the trial's processes."""
    if not seen:
        why = "nvidia-smi lists no process of the trial, as in a container"
        return Judged(line="pinning", verdict=Verdict.NOT_RUN, why=why)
    verdict = Verdict.MET if seen == {wanted} else Verdict.MISSED
    why = f"seen on {', '.join(sorted(seen))}, wanted {wanted}"
    return Judged(line="pinning", verdict=verdict, why=why)


def gpus_of(pid: int) -> set[str]:
    """Return the UUIDs of GPUs that a process and its descendants compute on.

    Empty where nvidia-smi cannot be asked, or counts processes otherwise, as in a container.
    """
    pids = {pid}
    with suppress(psutil.NoSuchProcess):
        pids |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    try:
        ended = subprocess.run(_QUERY, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return listed(ended.stdout, pids)


def listed(output: str, pids: Collection[int]) -> set[str]:
    """Return the GPUs of these processes in nvidia-smi's list, whose lines are `PID, UUID`."""
    found = set()
    for line in output.splitlines():
        pid, _, uuid = line.partition(",")
        if pid.strip().isdecimal() and int(pid) in pids:
            found.add(uuid.strip())
    return found

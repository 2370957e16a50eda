"""Does anything run: an operation of each library, one trial, and what the driver sees of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.gpu.found import Finding, Judged, Note, Number, Verdict
from benchmarks.gpu.kit import Kit, last_line, program
from benchmarks.gpu.seen_by_nvidia_smi import gpus_of
from benchmarks.gpu.trials import Trial, all_completed, sweep

ABOUT = "one operation of each library, one trial, and what the driver sees of it"
LINES: Mapping[str, str] = {
    "trial": "a trial runs from start to end",
    "telemetry": "clock, power and temperature of the trial's GPU are recorded",
    "pinning": "nvidia-smi sees the trial on the GPU that it was given, and on no other",
}
MINUTES: Mapping[str, float] = {"gpus": 1.25, "gpu": 1.25, "cpu": 0.4}


def run(kit: Kit) -> Iterator[Finding]:
    yield from _operations(kit)
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


def _operations(kit: Kit) -> Iterator[Finding]:
    log = kit.logs / "operations.log"
    device = "gpu" if kit.box.on_gpus else "cpu"
    precisions = ("float32", "tf32", "float16", "bfloat16")
    if not kit.box.on_gpus:
        precisions = ("float32", "bfloat16")
    elif not kit.box.knows_bfloat16:
        precisions = ("float32", "float16")
    command = [sys.executable, "-m", "benchmarks.gpu.operations", device, *precisions]
    variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **kit.box.mask()}
    with program(command, log, variables) as process:
        exit_code = process.wait()
    if exit_code:
        yield Note(text=f"an operation failed, see logs/{log.name}: {last_line(log)}")
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith('{"what"'):
            yield Number(**json.loads(line))

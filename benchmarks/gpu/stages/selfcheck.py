"""Is every way of sharing variables exact, and where it was asked to be: `trainer selfcheck`."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.gpu.box import Box
from benchmarks.gpu.kit import (
    Finding,
    Judged,
    Kit,
    Note,
    NotRunError,
    Number,
    OutOfTimeError,
    Verdict,
    last_line,
    program,
)
from scalemark.records.machine import DeviceKind
from trainer.selfcheck import Bench, modes

ABOUT = "exactness and placement of every way of sharing variables"
LINES: Mapping[str, str] = {"modes": "every mode of the self-check is exact and placed"}
MINUTES: Mapping[str, float] = {"gpus": 6.0, "gpu": 3.65, "cpu": 0.3}
# differ in kind; the others follow while there is time
_FIRST = ("replicated_none", "ps_cpu", "mirrored_ring", "replicated_ring", "ps_gpu", "independent")

_COUNTED = {"passed": "passed", "failed": "failed", "unsupported": "cannot run here"}


# its interpreter ends with the signals that the kit sends, and what it prints is JSON alone
_PRINTED_TO = ("sh", "-c", 'out=$1; shift; exec "$@" >"$out"', "sh")


def run(kit: Kit) -> Iterator[Finding]:
    kind, devices = checked_devices(kit.box)
    names = ordered(list(modes(Bench(kind=kind, num_replicas=2))))
    # NCCL's kernels wait for those on other GPUs, where other processes may have their turn
    num_at_once = 1 if kind == "gpu" else kit.box.num_modes_at_once
    selfcheck = [sys.executable, "-m", "trainer", "selfcheck", "--devices", kind, "--json"]
    variables = {**os.environ, **kit.box.mask_of_most()}
    outs = [kit.folder / f"selfcheck-{number}.json" for number in range(num_at_once)]
    over: OutOfTimeError | KeyboardInterrupt | None = None
    try:
        with ExitStack() as running:
            processes = []
            for number, out in enumerate(outs):
                out.unlink(missing_ok=True)
                command = [
                    *_PRINTED_TO,
                    str(out),
                    *selfcheck,
                    "--modes",
                    *names[number::num_at_once],
                ]
                log = kit.logs / f"selfcheck-{number}.log"
                processes.append(running.enter_context(program(command, log, variables)))
            for process in processes:
                process.wait()
    except (OutOfTimeError, KeyboardInterrupt) as error:
        # they were interrupted, and wrote what they had checked so far
        over = error
    checks: list[dict[str, Any]] = []
    for out in outs:
        if out.exists() and out.stat().st_size > 0:
            checks += json.loads(out.read_text())["checks"]
    if checks:
        yield from judged(checks, names, devices)
    if over:
        raise over
    if not checks:
        log = kit.logs / "selfcheck-0.log"
        raise NotRunError(f"see logs/{log.name}: {last_line(log)}")


def checked_devices(box: Box) -> tuple[str, str]:
    """Return the self-check's --devices for this box, and the devices in words."""
    if not box.on_gpus:
        return "cpu_device", DeviceKind.CPU_DEVICE.plural
    if box.most_gpus_per_trial > 1:
        return "gpu", DeviceKind.GPU.counted(len(box.gpus))
    return "logical_gpu", "1 MIG device" if box.is_mig else DeviceKind.GPU.counted(1)


def ordered(modes: Sequence[str]) -> list[str]:
    """Return the modes that differ in kind first."""
    first = [mode for mode in _FIRST if mode in modes]
    return first + [mode for mode in modes if mode not in first]


def judged(
    checks: Sequence[dict[str, Any]], modes: Sequence[str], devices: str
) -> Iterator[Finding]:
    """Count the checks, and judge: missed where one failed; not run where modes were not reached;
    open where all that can run on these devices is exact, and others cannot; else met.
    """
    counts = Counter(check["outcome"] for check in checks)
    for outcome, what in _COUNTED.items():
        yield Number(what=f"self-check, {what}", value=counts[outcome], unit="checks")
    unable = defaultdict(list)
    for check in checks:
        if check["outcome"] == "unsupported":
            unable[check["problem"]].append(check["mode"])
    for problem, names in unable.items():
        yield Note(text=f"{problem} ({', '.join(dict.fromkeys(names))})")
    failed = [check for check in checks if check["outcome"] == "failed"]
    if failed:
        why = "; ".join(f"{one['mode']} {one['options']}: {one['problem']}" for one in failed)
        yield Judged(line="modes", verdict=Verdict.MISSED, why=why)
        return
    reached = {check["mode"] for check in checks}
    exact = {check["mode"] for check in checks if check["outcome"] == "passed"}
    parts = [f"{len(exact)} of {len(modes)} modes are exact and placed"]
    verdict = Verdict.MET
    if others := [mode for mode in modes if mode in reached - exact]:
        parts.append(f"cannot run on {devices}: {', '.join(others)}")
        verdict = Verdict.OPEN if exact else Verdict.NOT_RUN
    if late := [mode for mode in modes if mode not in reached]:
        parts.append(f"not reached: {', '.join(late)}")
        verdict = Verdict.NOT_RUN
    yield Judged(line="modes", verdict=verdict, why="; ".join(parts))

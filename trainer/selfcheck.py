"""`python -m trainer selfcheck`: proves every mode on the devices this machine has, and measures
each shortly. Run it first.

```
  this process: which devices, which modes ──► one process per mode (trainer/check/mode_check.py) ──► tables, JSON
```
A mode that crashes or hangs is one failed line; the others are checked all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pynvml

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.host.extras import lack_of_tensorflow
from scalemark.host.own_code import module_command, python_path
from scalemark.records.devices import STAND_INS_NOTE, DeviceKind
from scalemark.records.placement import ORCHESTRATOR_VARIABLE
from scalemark.records.strategies import strategy_name
from scalemark.text.untrusted import quoted

MODE_TIMEOUT_S = 180.0
BUDGET_S = 480.0  # no mode is begun after so long
NUM_STAND_INS = 2
MOST_GPUS = 8
MOST_HOSTS = 8
PIECES_OF_ONE_GPU = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way of sharing variables and reducing gradients."""

    variable_update: str
    local_parameter_device: str
    all_reduce: str
    is_distributed: bool = False  # checked over several hosts

    @property
    def name(self) -> str:
        return strategy_name(self.variable_update, self.local_parameter_device, self.all_reduce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at in one mode. `problem` is empty when it is as it must be."""

    mode: str
    options: str  # what differs from the plain mode, as overrides; "-" for nothing
    outcome: str  # passed, failed, or unsupported: it cannot run here
    problem: str = ""  # what is wrong, or why it cannot run
    difference: float | None = None  # largest absolute difference of any weight from the reference
    loss_difference: float | None = None  # of the last step's loss from the reference's
    bound: float | None = None  # that both must be under
    throughput: float | None = None  # of a short run; none for checks of exactness


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The devices the checks run on."""

    kind: str  # cpu_stand_in, logical_gpu, gpu
    num_replicas: int  # of all hosts
    num_hosts: int = 1  # more are processes of this machine

    @property
    def described(self) -> str:
        per_host = self.num_replicas // self.num_hosts
        told = {
            "cpu_stand_in": DeviceKind.CPU_STAND_IN.counted(per_host),
            "logical_gpu": f"{per_host} logical GPU{'s' if per_host > 1 else ''} cut from one physical GPU",
            "gpu": DeviceKind.GPU.counted(per_host),
        }[self.kind]
        return (
            told
            if self.num_hosts == 1
            else f"{self.num_hosts} hosts with {told} each (processes of this machine)"
        )


def main(
    arguments: Sequence[str] | None = None, *, program: str = "python -m trainer selfcheck"
) -> int:
    """Exit code 0 when every mode that can run here is exact and where it says; 1 otherwise; 2 for
    a wrong question.
    """
    parser = argparse.ArgumentParser(
        prog=program,
        description=(
            "Proves exactness and placement of every mode on this machine's devices, and "
            "measures each shortly."
        ),
    )
    parser.add_argument(
        "--devices",
        choices=("auto", "cpu_stand_in", "logical_gpu", "gpu"),
        default="auto",
        help="what to check on",
    )
    parser.add_argument(
        "--replicas",
        type=int,
        default=0,
        metavar="N",
        help="how many, on each host; 0 = a sensible number",
    )
    parser.add_argument(
        "--hosts",
        type=int,
        default=1,
        metavar="H",
        help=(
            "2 or more: check the modes of several hosts, as processes of this machine; 1 = "
            "check the others"
        ),
    )
    parser.add_argument(
        "--modes", nargs="+", metavar="MODE", help="only these, by their names in the table"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write everything found to this file, too"
    )
    asked = parser.parse_args(arguments)
    if lack := lack_of_tensorflow():
        parser.error(lack)
    # what TensorFlow says at its start is no finding
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not 1 <= asked.hosts <= MOST_HOSTS:
        parser.error(f"--hosts {asked.hosts}: wanted 1 to {MOST_HOSTS}")
    every_mode = list(all_modes())
    modes = {mode.name: mode for mode in every_mode if mode.is_distributed == (asked.hosts > 1)}
    if other := set(asked.modes or ()) & {mode.name for mode in every_mode} - set(modes):
        hosts = (
            "several hosts; give --hosts 2" if asked.hosts == 1 else "one host; leave --hosts out"
        )
        parser.error(
            f"mode {', '.join(sorted(other))} is of {hosts}, or choose from {', '.join(modes)}"
        )
    if unknown := set(asked.modes or ()) - set(modes):
        parser.error(f"no mode {', '.join(sorted(unknown))}; choose from {', '.join(modes)}")
    if asked.json and not asked.json.absolute().parent.is_dir():
        parser.error(f"--json {asked.json}: there is no folder {asked.json.absolute().parent}")
    if not 0 <= asked.replicas <= 16:
        parser.error(f"--replicas {asked.replicas}: wanted 1 to 16, or 0 for a sensible number")
    num_gpus = _num_gpus()
    if asked.devices in ("gpu", "logical_gpu") and not num_gpus:
        parser.error(f"--devices {asked.devices}: NVML finds no GPU here; choose cpu_stand_in")
    bench = choose_bench(asked.devices, asked.replicas, num_gpus, asked.hosts)
    if bench.kind == "gpu" and bench.num_replicas > num_gpus:
        parser.error(
            f"--hosts {asked.hosts}: {bench.described} are wanted, and this machine has "
            f"{num_gpus} GPUs"
        )
    print(f"checking on {bench.described}", file=sys.stderr)
    start = time.monotonic()
    checks: list[Check] = []
    interrupted = False
    chosen = [modes[name] for name in asked.modes or modes]
    for number, mode in enumerate(chosen, 1):
        try:
            found = (
                _check_in_own_process(mode, bench)
                if time.monotonic() - start < BUDGET_S
                else [_not_reached(mode)]
            )
        except KeyboardInterrupt:
            print("interrupted: what was checked so far", file=sys.stderr)
            interrupted = True
            break
        checks += found
        print(f"[{number}/{len(chosen)}] {mode.name}: {_counted(found)}", file=sys.stderr)
    for line in report(checks, bench):
        print(line)
    if bench.num_hosts > 1:
        print(
            f"\nNot checked: {', '.join(joined_modes())}, for which every worker is a "
            "trainer of its own; tests prove them"
        )
    took_s = time.monotonic() - start
    print(f"{_counted(checks)}; took {took_s:.0f} s")
    if asked.json:
        told = {
            "devices": asdict(bench),
            "took_s": round(took_s, 1),
            "checks": [asdict(check) for check in checks],
        }
        asked.json.write_text(json.dumps(told, indent=1) + "\n")
    if interrupted:
        return 130
    if not asked.modes and not any(check.outcome == "passed" for check in checks):
        print("nothing could be checked here: see the reasons above", file=sys.stderr)
        return 1
    return int(any(check.outcome == "failed" for check in checks))


def all_modes() -> Iterator[Mode]:
    """Every combination that the files of `trainer/variable_updates/` offer, but for those in which
    every worker trains.
    """
    for update, abilities in VARIABLE_UPDATES.items():
        if abilities.every_worker_trains:
            continue
        for where, all_reduce in product(abilities.local_parameter_devices, abilities.all_reduces):
            yield Mode(
                variable_update=update,
                local_parameter_device=where,
                all_reduce=all_reduce,
                is_distributed=abilities.is_distributed,
            )


def joined_modes() -> Iterator[str]:
    """Names of the variable updates that no single process can check."""
    for update, abilities in VARIABLE_UPDATES.items():
        if abilities.every_worker_trains:
            yield update


def choose_bench(asked: str, num_replicas: int, num_gpus: int, num_hosts: int = 1) -> Bench:
    """Physical GPUs where there are several, pieces of one where there is one, CPU stand-ins
    elsewhere.
    """
    kind = asked
    if asked == "auto":
        kind = "gpu" if num_gpus > 1 else "logical_gpu" if num_gpus else "cpu_stand_in"
    own_gpus = min(num_gpus, MOST_GPUS) // num_hosts
    sensible = {"cpu_stand_in": NUM_STAND_INS, "logical_gpu": PIECES_OF_ONE_GPU, "gpu": own_gpus}[
        kind
    ]
    return Bench(
        kind=kind, num_replicas=num_hosts * (num_replicas or max(1, sensible)), num_hosts=num_hosts
    )


def report(checks: Sequence[Check], bench: Bench) -> Iterator[str]:
    """The tables: exactness per mode and options, images/s per mode and precision, and what cannot
    run and why.
    """
    exact = [check for check in checks if check.difference is not None]
    yield (
        "\nLargest difference from the reference of any weight, and of the loss where it must "
        f"agree; {bench.described}"
    )
    yield from _table(
        ["mode", "options", "weights", "loss", "must be", ""],
        [
            [
                check.mode,
                check.options,
                f"{check.difference:.1e}",
                "-" if check.loss_difference is None else f"{check.loss_difference:.1e}",
                f"< {check.bound:.0e}",
                "" if check.outcome == "passed" else "FAILED",
            ]
            for check in exact
        ],
    )
    timed = [check for check in checks if check.throughput is not None]
    precisions = list(dict.fromkeys(check.options for check in timed))
    rates = {(check.mode, check.options): f"{check.throughput:.4g}" for check in timed}
    yield (
        "\nImages/s of resnet18_cifar, a second or two each: an impression, no measurement; "
        f"{bench.described}"
    )
    if bench.kind == "cpu_stand_in":
        yield STAND_INS_NOTE
    rows = [
        [mode, *(rates.get((mode, told), "-") for told in precisions)]
        for mode in dict.fromkeys(check.mode for check in timed)
    ]
    yield from _table(["mode", *precisions], rows)
    unsupported: dict[tuple[str, str], list[str]] = defaultdict(list)
    for check in checks:
        if check.outcome == "unsupported":
            unsupported[check.options, check.problem].append(check.mode)
    if unsupported:
        yield "\nCannot run here"
    for (options, problem), modes in unsupported.items():
        yield (
            f"{problem} "
            f"({'' if options == '-' else options + ' with '}{', '.join(dict.fromkeys(modes))})"
        )
    failed = [check for check in checks if check.outcome == "failed"]
    if failed:
        yield "\nFAILED"
        yield from (f"{check.mode} {check.options}: {check.problem}" for check in failed)


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (heading, *rows)) for column in range(len(heading))]
    for row in (heading, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _check_in_own_process(mode: Mode, bench: Bench) -> list[Check]:
    with TemporaryDirectory() as folder:
        out, log = Path(folder) / "checks.jsonl", Path(folder) / "log.txt"
        with log.open("wb") as log_file:
            process = subprocess.Popen(
                module_command(
                    "trainer.check.mode_check",
                    json.dumps(asdict(mode)),
                    json.dumps(asdict(bench)),
                    str(out),
                ),
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env={"TF_ENABLE_ONEDNN_OPTS": "1"}
                | os.environ
                | {
                    ORCHESTRATOR_VARIABLE: str(os.getpid()),
                    "PYTHONPATH": python_path(os.environ),
                },
            )
            try:
                exit_code: int | None = process.wait(MODE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                exit_code = None
            finally:
                process.kill()
                process.wait()
        checks = (
            [Check(**json.loads(line)) for line in out.read_text().splitlines()]
            if out.exists()
            else []
        )
        if exit_code != 0:
            how = (
                f"hung for {MODE_TIMEOUT_S:.0f} s"
                if exit_code is None
                else f"its process ended with {exit_code}"
            )
            last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
            checks.append(
                Check(
                    mode=mode.name,
                    options="-",
                    outcome="failed",
                    problem=f"{how}: {quoted(last, 300)}",
                )
            )
        return checks


def _not_reached(mode: Mode) -> Check:
    problem = f"not reached within {BUDGET_S:.0f} s; ask for it alone with --modes {mode.name}"
    return Check(mode=mode.name, options="-", outcome="failed", problem=problem)


def _counted(checks: Sequence[Check]) -> str:
    counts = {
        outcome: sum(check.outcome == outcome for check in checks)
        for outcome in ("passed", "failed", "unsupported")
    }
    return (
        f"{counts['passed']} checks passed, {counts['failed']} failed, {counts['unsupported']} "
        "cannot run here"
    )


def _num_gpus() -> int:
    """As NVML counts them, within CUDA_VISIBLE_DEVICES."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        found = int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        found
        if mask is None
        else min(found, len([entry for entry in mask.split(",") if entry not in ("", "-1")]))
    )

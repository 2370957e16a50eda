"""`scalemark selfcheck`: proves every mode on this machine's devices. Run it first.

```
  this process: which devices, which modes ─► a process for each mode, one after the other ─► table
                                              (mode_check.py)
```
A mode that crashes or hangs is one failed line; the others are checked all the same.

TensorFlow reads some variables once, at its import. Trials of other precisions need others, so that
the checks of a mode are made in as many processes as there are different ones: on GPUs one with
half precision and one without.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pynvml

from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.cli.terminal import print_json, reader_may_leave
from scalemark.host.own_code import lack_of_tensorflow, module_command, python_path
from scalemark.records import switches
from scalemark.records.attempt import ORCHESTRATOR_VARIABLE
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec, strategy_name
from scalemark.records.validation import JsonRecord
from scalemark.text import wording
from scalemark.text.untrusted import quoted

NUM_CPU_DEVICES = 2
MOST_GPUS = 8
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The devices the checks run on."""

    kind: str  # cpu_device, logical_gpu, gpu
    num_replicas: int  # of all hosts
    num_hosts: int = 1  # more are processes of this machine

    @property
    def device_kind(self) -> str:
        """The kind that its trials name."""
        if self.kind == "logical_gpu":
            return str(DeviceKind.GPU)
        return self.kind

    @property
    def described(self) -> str:
        per_host = self.num_replicas // self.num_hosts
        if self.kind == "logical_gpu":
            devices = f"{per_host} logical GPU{'s' if per_host > 1 else ''} cut from one GPU"
        else:
            devices = DeviceKind(self.kind).counted(per_host)
        if self.num_hosts == 1:
            return devices
        return f"{self.num_hosts} hosts with {devices} each (processes of this machine)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(JsonRecord):
    """The checks of one mode that a process makes, because they need the same environment."""

    mode: Mode
    bench: Bench
    precisions: tuple[str, ...]  # with fp32 come the checks that vary something else


BASE = TrialSpec(
    model="resnet18_cifar",
    num_gpus=1,
    device_kind=DeviceKind.CPU_DEVICE,
    variable_update="replicated",
    local_parameter_device="gpu",
    all_reduce="none",
    precision="fp32",
    optimizer="momentum",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=4e-5,
    data="synthetic",
    distortions=False,
    image_px=32,
    num_classes=10,
    batch_size=16,
    min_warm_up_steps=2,
    num_steps=10,
    seed=1,
)


def of_one_device(bench: Bench) -> TrialSpec:
    """Return the trial that others are compared with."""
    return replace(BASE, device_kind=bench.device_kind)


def of_mode(mode: Mode, bench: Bench) -> TrialSpec:
    """Return the plain trial of a mode on all devices of the bench."""
    return replace(
        of_one_device(bench),
        num_gpus=bench.num_replicas,
        hosts=bench.num_hosts,
        variable_update=mode.variable_update,
        local_parameter_device=mode.local_parameter_device,
        all_reduce=mode.all_reduce,
        batch_size=16 if bench.kind == "cpu_device" else 128,
    )


def parts(
    mode: Mode, bench: Bench, inherited: Mapping[str, str]
) -> Iterator[tuple[Part, dict[str, str]]]:
    """Yield the parts of a mode's checks, the plain ones first, and the variables of each."""
    of_variables: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for precision in _precisions(mode):
        spec = replace(of_mode(mode, bench), precision=precision)
        variables = tuple(sorted(switches.variables(spec, inherited).items()))
        of_variables.setdefault(variables, []).append(precision)
    for variables, precisions in of_variables.items():
        yield Part(mode=mode, bench=bench, precisions=tuple(precisions)), dict(variables)


def _precisions(mode: Mode) -> list[str]:
    if VARIABLE_UPDATES[mode.variable_update].is_of_one_host:
        return [BASE.precision]  # those checks do not vary it
    return [BASE.precision, *(name for name in PRECISIONS if name != BASE.precision)]


def all_modes() -> Iterator[Mode]:
    """Yield every combination that the files of `trainer/variable_updates/` offer.

    Those in which every host trains by itself are left out: no single process can check them.
    """
    for update, abilities in VARIABLE_UPDATES.items():
        if abilities.every_worker_trains and not abilities.is_of_one_host:
            continue
        for where, all_reduce in product(abilities.local_parameter_devices, abilities.all_reduces):
            yield Mode(
                variable_update=update,
                local_parameter_device=where,
                all_reduce=all_reduce,
                is_distributed=abilities.goes_over_hosts,
            )


def choose_bench(asked: str, num_replicas: int | None, num_gpus: int, num_hosts: int = 1) -> Bench:
    """Choose GPUs where there are several, pieces of one where there is one, else CPU devices."""
    kind = asked
    if asked == "auto" and num_gpus:
        kind = "gpu" if num_gpus > 1 else "logical_gpu"
    elif asked == "auto":
        kind = "cpu_device"
    if num_replicas is None:
        own_gpus = min(num_gpus, MOST_GPUS) // num_hosts
        sensible = {"cpu_device": NUM_CPU_DEVICES, "logical_gpu": PIECES_OF_ONE_GPU}
        num_replicas = sensible.get(kind, max(1, own_gpus))
    return Bench(kind=kind, num_replicas=num_hosts * num_replicas, num_hosts=num_hosts)


CHECK_TIMEOUT_S = 300.0  # one that takes longer hangs; the first has to import and build
LOOK_EVERY_S = 1.0
MOST_HOSTS = 8
MOST_REPLICAS = 16
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None, *, program: str = "scalemark selfcheck") -> int:
    """Return 0 when every mode that can run here is exact and where it says, else 1; 130 after an
    interrupt, which prints what was checked until then.
    """
    asked, modes, bench = _asked(arguments, program)
    # what TensorFlow says at its start is no finding
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    print(f"checking on {bench.described}", file=sys.stderr)
    before = signal.signal(signal.SIGTERM, _interrupt)  # as `timeout` and Slurm send it
    try:
        checks, was_interrupted = _checked(modes, bench)
    finally:
        signal.signal(signal.SIGTERM, before)
    with reader_may_leave():
        if asked.json:
            print_json({"devices": bench, "checks": checks})
        else:
            print("\n".join([*report(checks, bench), f"\n{_counted(checks)}"]), flush=True)
    if was_interrupted:
        return INTERRUPTED
    outcomes = {check.outcome for check in checks}
    if "passed" not in outcomes:
        print("nothing could be checked here: see the reasons above", file=sys.stderr)
        return 1
    return int("failed" in outcomes)


def _interrupt(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
    raise KeyboardInterrupt


def _checked(modes: Sequence[Mode], bench: Bench) -> tuple[list[Check], bool]:
    """Check one mode after the other; return whether somebody interrupted, too."""
    checks: list[Check] = []
    for number, mode in enumerate(modes, start=1):
        of_mode: list[Check] = []
        try:
            for part, variables in parts(mode, bench, os.environ):
                _check_in_own_process(part, variables, of_mode)
                if all(check.outcome != "passed" for check in of_mode):
                    break  # the mode cannot run here, or is broken, which need not be said again
        except KeyboardInterrupt:
            print(f"interrupted: {len(modes) - number + 1} modes are left", file=sys.stderr)
            return checks, True
        print(f"[{number}/{len(modes)}] {mode.name}: {_counted(of_mode)}", file=sys.stderr)
        checks += of_mode
    return checks, False


def _check_in_own_process(part: Part, variables: Mapping[str, str], checks: list[Check]) -> None:
    """Add the checks of a process with these variables, beside those that every one has."""
    mode = part.mode
    with TemporaryDirectory() as folder:
        out, log = Path(folder) / "checks.jsonl", Path(folder) / "log.txt"
        out.touch()
        environment = {
            "TF_ENABLE_ONEDNN_OPTS": "1",
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # else one mode takes all of a GPU's memory
            **os.environ,
            **variables,
            ORCHESTRATOR_VARIABLE: str(os.getpid()),
            "PYTHONPATH": python_path(os.environ),
        }
        with log.open("wb") as log_file:
            process = subprocess.Popen(
                module_command("trainer.mode_check", part.to_json(), str(out)),
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env=environment,
                process_group=0,  # Ctrl-C and `timeout` signal a group: this one is ended from here
            )
        try:
            problem = _how_it_failed(process, out)
        finally:
            process.kill()
            process.wait()
            checks += [Check(**json.loads(line)) for line in out.read_text().splitlines()]
        if problem:
            last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
            problem = f"{problem}: {quoted(last, 300)}"
            checks.append(Check(mode=mode.name, options="-", outcome="failed", problem=problem))


def _how_it_failed(process: subprocess.Popen[bytes], out: Path) -> str:
    """Wait for a mode's process, as long as it writes checks; empty where it ended well."""
    num_bytes, seen_s = 0, time.monotonic()
    while True:
        try:
            exit_code = process.wait(LOOK_EVERY_S)
            if exit_code:
                return f"its process ended with {exit_code}"
            return ""
        except subprocess.TimeoutExpired:
            now_s, written = time.monotonic(), out.stat().st_size
        if written != num_bytes:
            num_bytes, seen_s = written, now_s
        elif now_s - seen_s >= CHECK_TIMEOUT_S:
            return f"hung for {CHECK_TIMEOUT_S:.0f} s"


def _asked(
    arguments: Sequence[str] | None, program: str
) -> tuple[argparse.Namespace, list[Mode], Bench]:
    """Read the command line; a wrong question ends the process with exit code 2."""
    parser = argparse.ArgumentParser(
        prog=program,
        description="Proves exactness and placement of every mode on this machine's devices.",
    )
    kinds = ("auto", "cpu_device", "logical_gpu", "gpu")
    parser.add_argument("--devices", choices=kinds, default="auto", help="what to check on")
    parser.add_argument(
        "--replicas", type=int, metavar="N", help="how many, on each host (default: a few)"
    )
    hosts_help = "2 or more: check the modes of several hosts, as processes of this machine"
    parser.add_argument("--hosts", type=int, default=1, metavar="H", help=hosts_help)
    modes_help = "only these, as in the table; commas between them will do, too"
    parser.add_argument("--modes", nargs="+", metavar="MODE", help=modes_help)
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    asked = parser.parse_args(arguments)
    lack = lack_of_tensorflow()
    if lack:
        parser.error(lack)
    if not 1 <= asked.hosts <= MOST_HOSTS:
        parser.error(f"--hosts {asked.hosts}: wanted 1 to {MOST_HOSTS}")
    if asked.replicas is not None and not 1 <= asked.replicas <= MOST_REPLICAS:
        parser.error(f"--replicas {asked.replicas}: wanted 1 to {MOST_REPLICAS}")
    return asked, _modes(parser, asked), _bench(parser, asked)


def _modes(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> list[Mode]:
    """Return the modes that were asked for, else all of so many hosts."""
    modes = {mode.name: mode for mode in all_modes() if mode.is_distributed == (asked.hosts > 1)}
    chosen: list[str] = []
    for word in asked.modes or ():
        chosen += word.strip(",").split(",")
    unknown = set(chosen) - set(modes)
    if unknown:
        parser.error(
            f"no mode {', '.join(sorted(unknown))} with --hosts {asked.hosts}; "
            f"choose from {', '.join(modes)}"
        )
    return [modes[name] for name in chosen or modes]


def _bench(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> Bench:
    """Return the devices that modes are checked on."""
    num_gpus = _num_devices()
    if asked.devices in ("gpu", "logical_gpu") and not num_gpus:
        parser.error(f"--devices {asked.devices}: NVML finds no GPU here; choose cpu_device")
    bench = choose_bench(asked.devices, asked.replicas, num_gpus, asked.hosts)
    if bench.kind == "gpu" and bench.num_replicas > num_gpus:
        here = wording.counted(num_gpus, "device")
        parser.error(
            f"{bench.described} are wanted, and CUDA shows a process {here} here (of MIG devices "
            "one); choose fewer --replicas, or --devices logical_gpu"
        )
    if bench.kind == "gpu" and bench.num_replicas == 1:
        parser.error(
            "--devices gpu: found 1 replica, over which every sum is exact; wanted 2 or more: "
            "choose --devices logical_gpu, which cuts one GPU"
        )
    return bench


def report(checks: Sequence[Check], bench: Bench) -> Iterator[str]:
    """Yield a table of what was checked, then what could not be checked and why, then failures."""
    rows: list[tuple[str, ...]] = []
    unchecked: dict[str, dict[str, None]] = defaultdict(dict)
    failed = []
    for check in checks:
        name = check.mode if check.options == "-" else f"{check.mode} {check.options}"
        if check.outcome == "unsupported":
            unchecked[check.problem][name] = None
        else:
            rows.append(_row(check))
        if check.outcome == "failed":
            failed.append(f"{name}: {check.problem}")
    if rows:
        yield f"\nLargest difference of weights and loss from one device; {bench.described}"
        if bench.kind == "cpu_device":
            yield DeviceKind.CPU_DEVICE.note
        rows = [("mode", "options", "weights", "loss", "below", ""), *rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            yield "  ".join(map(str.ljust, row, widths)).rstrip()
    if unchecked:
        yield "\nNot checked"
    for problem, names in unchecked.items():
        yield f"{problem} ({', '.join(names)})"
    if failed:
        yield "\nFAILED"
        yield from failed


def _row(check: Check) -> tuple[str, ...]:
    cells = []
    numbers = (check.difference, ".1e"), (check.loss_difference, ".1e"), (check.bound, ".0e")
    for value, form in numbers:
        cells.append("-" if value is None else format(value, form))
    return check.mode, check.options, *cells, "FAILED" if check.outcome == "failed" else ""


def _counted(checks: Sequence[Check]) -> str:
    counts = Counter(check.outcome for check in checks)
    return (
        f"{counts['passed']} checks passed, {counts['failed']} failed, {counts['unsupported']} "
        "cannot run here"
    )


def _num_devices() -> int:
    """Count the GPUs and MIG devices that CUDA shows to one process, of those that NVML finds,
    within CUDA_VISIBLE_DEVICES. Beside a MIG device it shows nothing else.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        num_gpus = int(pynvml.nvmlDeviceGetCount())
        num_cut = sum(map(_is_in_mig_mode, range(num_gpus)))
    finally:
        pynvml.nvmlShutdown()
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    if mask is None:
        return 1 if num_cut else num_gpus
    visible = [entry for entry in mask.split(",") if entry not in ("", "-1")]
    if any(entry.startswith("MIG-") for entry in visible):
        return 1
    num_whole = num_gpus - num_cut
    return min(num_whole or min(num_cut, 1), len(visible))


def _is_in_mig_mode(index: int) -> bool:
    try:
        mode = pynvml.nvmlDeviceGetMigMode(pynvml.nvmlDeviceGetHandleByIndex(index))[0]
    except pynvml.NVMLError:  # it knows no such mode
        return False
    return bool(mode == pynvml.NVML_DEVICE_MIG_ENABLE)

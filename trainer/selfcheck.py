"""`scalemark selfcheck`: proves every mode on this machine's devices. Run it first.

```
  this process: which devices, which modes ─► the ranks of a mode, one mode after the other ─► table
                                              (mode_check.py, started as those of a trial)
```
A mode that crashes or hangs is one failed line; the others are checked all the same.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pynvml

from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES, jobs_of
from scalemark.cli.terminal import make_console, print_columns, print_json, reader_may_leave
from scalemark.host.own_code import lack_of_tensorflow, python_path
from scalemark.records import switches
from scalemark.records.attempt import WORKER_0, Rank
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec, strategy_name
from scalemark.records.validation import JsonRecord
from scalemark.run_folder import RunFolder, last_error
from scalemark.text import wording
from trainer import own_rank, rank_ends
from trainer.supervision import NotStartedError, RanksJob, StartedRanks, start_ranks

NUM_CPU_DEVICES = 2
MOST_GPUS = 8
PIECES_OF_ONE_GPU = 2
CHECK_TIMEOUT_S = 300.0  # one that takes longer hangs; the first has to import and build
LOOK_EVERY_S = 1.0
MOST_HOSTS = 8
MOST_REPLICAS = 16
INTERRUPTED = 130


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
class Bench(JsonRecord):
    """The devices the checks run on."""

    kind: str  # cpu_device, logical_gpu, gpu
    num_replicas: int  # of all hosts
    num_hosts: int = 1  # more are processes of this machine

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


ONE_DEVICE = TrialSpec(
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
"""The trial that others are compared with."""


def modes(bench: Bench) -> dict[str, TrialSpec]:
    """Return the plain trial of every combination that the files of `trainer/variable_updates/`
    offer on so many hosts.

    Those in which every host trains by itself are left out: on CPUs they have one device per host.
    """
    found = {}
    for update, abilities in VARIABLE_UPDATES.items():
        is_of_one_host = not abilities.goes_over_hosts
        if is_of_one_host != (bench.num_hosts == 1):
            continue
        if abilities.every_worker_trains and not is_of_one_host:
            continue
        for where, all_reduce in product(abilities.local_parameter_devices, abilities.all_reduces):
            spec = replace(
                ONE_DEVICE,
                device_kind="cpu_device" if bench.kind == "cpu_device" else "gpu",
                num_gpus=bench.num_replicas,
                hosts=bench.num_hosts,
                variable_update=update,
                local_parameter_device=where,
                all_reduce=all_reduce,
            )
            found[strategy_name(update, where, all_reduce)] = own_rank.with_processes(spec)
    return found


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


def main(arguments: Sequence[str] | None = None, *, program: str = "scalemark selfcheck") -> int:
    """Return 0 when every mode that can run here is exact and where it says, else 1; 130 after an
    interrupt, which prints what was checked until then.
    """
    asked, bench, specs = _asked(arguments, program)
    print(f"checking on {bench.described}", file=sys.stderr)
    before = signal.signal(signal.SIGTERM, _interrupt)  # as `timeout` and Slurm send it
    checks: list[Check] = []
    was_interrupted = False
    try:
        for number, (name, spec) in enumerate(specs.items(), start=1):
            of_mode = _check(name, spec, bench)
            print(f"[{number}/{len(specs)}] {name}: {_counted(of_mode)}", file=sys.stderr)
            checks += of_mode
    except KeyboardInterrupt:
        was_interrupted = True
        print(f"interrupted: {len(specs) - number + 1} modes are left", file=sys.stderr)
    finally:
        signal.signal(signal.SIGTERM, before)
    with reader_may_leave():
        if asked.json:
            print_json({"devices": bench, "checks": checks})
        else:
            report(checks, bench)
            print(f"\n{_counted(checks)}", flush=True)
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


RANK_MODULE = "trainer.mode_check"


def bench_file(folder: RunFolder) -> Path:
    return folder.path / "bench.json"


def checks_file(folder: RunFolder, rank: Rank) -> Path:
    """Return the file to which a rank writes a line of JSON per check."""
    return folder.path / f"checks-{rank.name}.jsonl"


def variables(spec: TrialSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return what a mode's ranks need in their environment beside the inherited: TensorFlow reads
    it once, at its import, so that it serves the checks of every precision.
    """
    needed = {"PYTHONPATH": python_path(inherited)}
    usual = {
        "TF_CPP_MIN_LOG_LEVEL": "2",  # what TensorFlow says at its start is no finding
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # else one mode takes all of a GPU's memory
    }
    for name in usual.keys() - inherited.keys():
        needed[name] = usual[name]
    for precision in PRECISIONS:
        needed |= switches.variables(replace(spec, precision=precision), inherited)
    return needed


def _check(name: str, spec: TrialSpec, bench: Bench) -> list[Check]:
    """Check one mode in processes of its own."""
    with TemporaryDirectory() as path:
        folder = RunFolder(Path(path))
        folder.write(folder.trial, spec.to_json())
        folder.write(bench_file(folder), bench.to_json())
        job = RanksJob(
            spec=spec,
            folder=folder,
            jobs=jobs_of(spec) or (WORKER_0.job_name,),
            module=RANK_MODULE,
            slow_import="",  # variables must be there before it
            variables=variables(spec, os.environ),
            cuts_one_gpu=bench.kind == "logical_gpu",
        )
        checking: tuple[Rank, ...] = (WORKER_0,)
        try:
            with start_ranks(job) as ranks:
                if VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
                    checking = ranks.cluster.ranks
                problem = _how_it_failed(ranks, folder, checking)
        except NotStartedError as error:
            problem = f"its processes could not be started: {error}"
        checks = _worst(folder, checking)
    if problem:
        checks.append(Check(mode=name, options="-", outcome="failed", problem=problem))
    return checks


def _how_it_failed(ranks: StartedRanks, folder: RunFolder, checking: Sequence[Rank]) -> str:
    """Wait for all ranks that check, as long as they write; empty where they ended well."""
    num_bytes, seen_s = 0, time.monotonic()
    while True:
        ended = ranks.look(LOOK_EVERY_S)
        for rank, exit_code in ended.items():
            if exit_code:
                how = rank_ends.ended(exit_code)
                return f"{rank.name} {how}: {last_error(folder.rank_log(rank))}"
        if all(rank in ended for rank in checking):
            return ""
        written = sum(path.stat().st_size for path in folder.path.glob("checks-*"))
        if written != num_bytes:
            num_bytes, seen_s = written, time.monotonic()
        elif time.monotonic() - seen_s >= CHECK_TIMEOUT_S:
            return f"hung for {CHECK_TIMEOUT_S:.0f} s: {last_error(folder.log)}"


def _worst(folder: RunFolder, checking: Sequence[Rank]) -> list[Check]:
    """Return each check as the rank has it that found the most, where all have made it."""
    of_ranks: list[list[Check]] = []
    for rank in checking:
        path = checks_file(folder, rank)
        lines = path.read_text().splitlines() if path.exists() else []
        of_ranks.append([Check(**json.loads(line)) for line in lines])
    worst = []
    for same in zip(*of_ranks, strict=False):
        failed = [check for check in same if check.outcome == "failed"]
        worst.append(max(failed or same, key=lambda check: check.difference or 0.0))
    return worst


def _asked(
    arguments: Sequence[str] | None, program: str
) -> tuple[argparse.Namespace, Bench, dict[str, TrialSpec]]:
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
    bench = _bench(parser, asked)
    specs = modes(bench)
    words = " ".join(asked.modes or specs).replace(",", " ").split()
    unknown = set(words) - set(specs)
    if unknown:
        parser.error(
            f"no mode {', '.join(sorted(unknown))} with --hosts {asked.hosts}; "
            f"choose from {', '.join(specs)}"
        )
    return asked, bench, {name: specs[name] for name in words}


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


def report(checks: Sequence[Check], bench: Bench) -> None:
    """Print a table of what was checked, then what could not be checked and why, then failures."""
    rows, failed = [], []
    unchecked: dict[str, dict[str, None]] = defaultdict(dict)
    for check in checks:
        name = check.mode if check.options == "-" else f"{check.mode} {check.options}"
        if check.outcome == "unsupported":
            unchecked[check.problem][name] = None
            continue
        cells = [check.mode, check.options]
        numbers = (check.difference, ".1e"), (check.loss_difference, ".1e"), (check.bound, ".0e")
        for value, form in numbers:
            cells.append("-" if value is None else format(value, form))
        rows.append([*cells, "FAILED" if check.outcome == "failed" else ""])
        if check.outcome == "failed":
            failed.append(f"{name}: {check.problem}")
    if rows:
        print(f"\nLargest difference of weights and loss from one device; {bench.described}")
        if bench.kind == "cpu_device":
            print(DeviceKind.CPU_DEVICE.note)
        print_columns(make_console(), ("mode", "options", "weights", "loss", "below", ""), rows)
    if unchecked:
        print("\nNot checked")
    for problem, names in unchecked.items():
        print(f"{problem} ({', '.join(names)})")
    if failed:
        print("\nFAILED", *failed, sep="\n")


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

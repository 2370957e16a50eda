"""`python -m trainer selfcheck`: proves every mode on this machine's devices. Run it first.

```
  this process: which devices, which modes ─► processes per mode (check/mode_check.py) ─► table
                                              └ --jobs N: of N modes at once
```
A mode that crashes or hangs is one failed line; the others are checked all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import pynvml

from scalemark import own_model
from scalemark.abilities import ALL_REDUCES, VARIABLE_UPDATES
from scalemark.host.extras import lack_of_tensorflow
from scalemark.host.own_code import module_command, python_path
from scalemark.models import ModelError
from scalemark.own_model import OwnModel
from scalemark.records.devices import DeviceKind
from scalemark.records.placement import ORCHESTRATOR_VARIABLE
from scalemark.text import wording
from scalemark.text.untrusted import quoted
from trainer.check import trials
from trainer.check.records import Bench, Check, Mode, Part

MODE_BUDGET_S = 480.0  # after so long a mode's process begins no further check
CHECK_TIMEOUT_S = 300.0  # one that takes longer hangs; the first has to import and build
LOOK_EVERY_S = 1.0
AGAIN_S = 1.0  # after which a second Ctrl-C is another; `timeout` sends two signals at once
NUM_CPU_DEVICES = 2
NOT_REACHED = "not reached"
MOST_GPUS = 8
MOST_HOSTS = 8
MOST_REPLICAS = 16
PIECES_OF_ONE_GPU = 2


def main(
    arguments: Sequence[str] | None = None, *, program: str = "python -m trainer selfcheck"
) -> int:
    """Return 0 when every mode that can run here is exact and where it says, as far as it was
    looked at, else 1.
    """
    asked, modes, bench = _asked(arguments, program)
    # what TensorFlow says at its start is no finding
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    start = time.monotonic()
    with _stop_signals() as received:
        print(f"checking on {bench.described}", file=sys.stderr)
        checks, interrupted = _checked(modes, bench, asked.jobs, received)
        took_s = time.monotonic() - start
        _tell(asked, checks, bench, took_s)
    if interrupted:
        return 130
    outcomes = {check.outcome for check in checks}
    if "passed" not in outcomes:
        print("nothing could be checked here: see the reasons above", file=sys.stderr)
        return 1
    return int("failed" in outcomes)


@contextmanager
def _stop_signals() -> Iterator[list[float]]:
    """Yield a list to which Ctrl-C adds the time, and SIGTERM, as `timeout` and Slurm send it.
    Neither interrupts the block, so that a report that has begun is printed whole; but a Ctrl-C
    that comes a second later does, for processes that do not end.
    """
    received: list[float] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(time.monotonic())
        if number == signal.SIGINT and received[-1] - received[0] > AGAIN_S:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, receive)
    try:
        yield received
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _tell(asked: argparse.Namespace, checks: Sequence[Check], bench: Bench, took_s: float) -> None:
    """Write the checks where that was asked for, and print the report."""
    if asked.out:
        content = {
            "devices": asdict(bench),
            "jobs": asked.jobs,
            "took_s": round(took_s, 1),
            "checks": [asdict(check) for check in checks],
        }
        asked.out.write_text(json.dumps(content, indent=1) + "\n")
    try:
        for line in report(checks, bench, asked.jobs):
            print(line)
        print(f"\n{_counted(checks)}; took {took_s:.0f} s", flush=True)
    except BrokenPipeError:  # who read it has read enough
        from scalemark.cli.terminal import silence  # here, because each trial imports this file

        silence(sys.stdout)


def _asked(
    arguments: Sequence[str] | None, program: str
) -> tuple[argparse.Namespace, list[Mode], Bench]:
    """Read the command line; a wrong question ends the process with exit code 2."""
    parser = _parser(program)
    asked = parser.parse_args(arguments)
    if lack := lack_of_tensorflow():
        parser.error(lack)
    _check_numbers(parser, asked)
    modes = _modes(parser, asked)
    bench = _bench(parser, asked)
    _check_out(parser, asked.out)
    return asked, modes, bench


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Proves exactness and placement of every mode on this machine's devices, and "
        "measures each shortly.",
    )
    kinds = ("auto", "cpu_device", "logical_gpu", "gpu")
    parser.add_argument("--devices", choices=kinds, default="auto", help="what to check on")
    parser.add_argument(
        "--replicas", type=int, metavar="N", help="how many, on each host (default: a few)"
    )
    parser.add_argument(
        "--hosts",
        type=int,
        default=1,
        metavar="H",
        help="2 or more: check the modes of several hosts, as processes of this machine",
    )
    parser.add_argument(
        "--modes",
        nargs="+",
        metavar="MODE",
        help="only these, as in the table; commas between them will do, too",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="check so many modes at once (default 1); "
        "those with NCCL on several GPUs one by one, before the others",
    )
    parser.add_argument(
        "--model",
        metavar="FILE.py:FUNCTION",
        help="check with this Keras model of your own, instead of small ones of ours",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the checks here as JSON, too"
    )
    return parser


def _check_numbers(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    if not 1 <= asked.hosts <= MOST_HOSTS:
        parser.error(f"--hosts {asked.hosts}: wanted 1 to {MOST_HOSTS}")
    if asked.jobs < 1:
        parser.error(f"--jobs {asked.jobs}: wanted 1 or more")
    if asked.replicas is not None and not 1 <= asked.replicas <= MOST_REPLICAS:
        parser.error(f"--replicas {asked.replicas}: wanted 1 to {MOST_REPLICAS}")


def _modes(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> list[Mode]:
    """Return the modes that were asked for, else all of so many hosts."""
    modes = {mode.name: mode for mode in all_modes() if mode.is_distributed == (asked.hosts > 1)}
    chosen = [name for word in asked.modes or () for name in word.strip(",").split(",")]
    if unknown := set(chosen) - set(modes):
        parser.error(
            f"no mode {', '.join(sorted(unknown))} with --hosts {asked.hosts}; "
            f"choose from {', '.join(modes)}"
        )
    return [modes[name] for name in chosen or modes]


def _bench(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> Bench:
    """Return the devices that modes are checked on, and the model."""
    model = _own_model(parser, asked.model) if asked.model else None
    num_gpus = _num_devices()
    if asked.devices in ("gpu", "logical_gpu") and not num_gpus:
        parser.error(f"--devices {asked.devices}: NVML finds no GPU here; choose cpu_device")
    bench = choose_bench(asked.devices, asked.replicas, num_gpus, asked.hosts)
    if model:
        bench = replace(bench, model=model.reference, model_digest=model.digest)
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


def _check_out(parser: argparse.ArgumentParser, out: Path | None) -> None:
    if out is None:
        return
    if not out.absolute().parent.is_dir():
        parser.error(f"--out {out}: there is no folder {out.absolute().parent}")
    if out.is_dir():
        parser.error(f"--out {out}: a folder, wanted a file")
    try:
        out.touch()
    except OSError as error:
        parser.error(f"--out {out}: {error.strerror}; choose another file")


def _own_model(parser: argparse.ArgumentParser, reference: str) -> OwnModel:
    try:
        return own_model.find(reference, own_model.folder_of(os.environ))
    except ModelError as error:
        parser.error(str(error))


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


def report(checks: Sequence[Check], bench: Bench, jobs: int = 1) -> Iterator[str]:
    """Yield a table of what was checked, then what cannot run here and why, and what failed."""
    rows: list[tuple[str, ...]] = []
    unsupported: dict[tuple[str, str], list[str]] = defaultdict(list)
    unreached: dict[str, list[str]] = defaultdict(list)
    for check in checks:
        if check.outcome == "unsupported":
            unsupported[check.options, check.problem].append(check.mode)
        elif check.outcome == NOT_REACHED:
            unreached[check.problem].append(check.mode)
        else:
            rows.append(_row(check))
    if rows:
        yield from _table(rows, bench, jobs)
    if unsupported:
        yield "\nCannot run here"
    for (options, problem), modes in unsupported.items():
        what = "" if options == "-" else f"{options} with "
        yield f"{problem} ({what}{', '.join(dict.fromkeys(modes))})"
    begun = {check.mode for check in checks if check.outcome != NOT_REACHED}
    for why, modes in unreached.items():
        some = [mode for mode in dict.fromkeys(modes) if mode in begun]
        none = [mode for mode in dict.fromkeys(modes) if mode not in begun]
        if some:
            yield f"\nNot all checks were reached ({why}): {', '.join(some)}"
        if none:
            yield f"\nNot reached ({why}): {', '.join(none)}"
    if bench.num_hosts > 1:
        joined = [
            name
            for name, update in VARIABLE_UPDATES.items()
            if update.every_worker_trains and update.goes_over_hosts
        ]
        yield f"\nNot checked: {', '.join(joined)}, of which each worker is a trainer of its own"
    failed = [check for check in checks if check.outcome == "failed"]
    if failed:
        yield "\nFAILED"
    for check in failed:
        yield f"{check.mode} {check.options}: {check.problem}"


def _table(rows: Sequence[tuple[str, ...]], bench: Bench, jobs: int) -> Iterator[str]:
    yield f"\nLargest difference of any weight and of the loss from one device; {bench.described}"
    counted = "examples/s" if bench.model else "images/s"
    model = bench.model or "resnet18_cifar"
    beside = f", and less so beside {wording.counted(jobs - 1, 'other mode')}" if jobs > 1 else ""
    yield f"{counted} of {model} in a second or two are an impression, not a measurement{beside}"
    if bench.kind == "cpu_device":
        yield DeviceKind.CPU_DEVICE.note
    rows = [("mode", "options", "weights", "loss", "below", counted, ""), *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(check: Check) -> tuple[str, ...]:
    def cell(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return (
        check.mode,
        check.options,
        cell(check.difference, ".1e"),
        cell(check.loss_difference, ".1e"),
        cell(check.bound, ".0e"),
        cell(check.throughput, ".4g"),
        "FAILED" if check.outcome == "failed" else "",
    )


def _checked(
    modes: Sequence[Mode], bench: Bench, jobs: int, received: Sequence[float]
) -> tuple[list[Check], bool]:
    """Check one by one the modes that need the GPUs for themselves, then so many others at once;
    return the checks in the order of the modes, and whether a signal was `received` before all had
    ended.
    """
    alone = [mode for mode in modes if _needs_gpus_alone(mode, bench)]
    together = [mode for mode in modes if mode not in alone]
    numbers = (f"[{number}/{len(modes)}]" for number in count(1))
    found, interrupted = _checked_at_once(alone, bench, 1, received, numbers)
    if not interrupted:
        of_others, interrupted = _checked_at_once(together, bench, jobs, received, numbers)
        found |= of_others
    if interrupted:
        print("interrupted: what was checked so far", file=sys.stderr)
    checks: list[Check] = []
    for mode in modes:
        checks += found.get(mode, [_interrupted(mode, "all")])
    return checks, interrupted


def _needs_gpus_alone(mode: Mode, bench: Bench) -> bool:
    """Return whether other processes on its GPUs would hold it up: they take turns on each GPU,
    and NCCL's kernels spin until those on the other GPUs have their turn.
    """
    return bench.kind == "gpu" and ALL_REDUCES[mode.all_reduce].uses_nccl


def _checked_at_once(
    modes: Sequence[Mode],
    bench: Bench,
    jobs: int,
    received: Sequence[float],
    numbers: Iterator[str],
) -> tuple[dict[Mode, list[Check]], bool]:
    """Check so many of these modes at once, until all have ended or a signal is `received`; return
    the checks of those that had begun, and whether it was interrupted.

    Each mode has a thread, which waits for its processes. Linux kills a process with the thread
    that started it (`parent.die_with`): those of the pool live until all modes have ended.
    """
    over = threading.Event()
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(_check, mode, bench, over): mode for mode in modes}
        waiting = set(running)
        try:
            while waiting and not received:
                ended, waiting = wait(waiting, LOOK_EVERY_S, FIRST_COMPLETED)
                for one in ended:
                    counted = f"{running[one].name}: {_counted(one.result())}"
                    print(f"{next(numbers)} {counted}", file=sys.stderr)
        finally:
            for one in running:
                one.cancel()  # before those that run end, and the pool takes another
            over.set()
    found = {}
    for one, mode in running.items():
        if not one.cancelled() and one.exception() is None:
            found[mode] = one.result()
    return found, bool(waiting)


def _check(mode: Mode, bench: Bench, over: threading.Event) -> list[Check]:
    checks: list[Check] = []
    for part, variables in trials.parts(mode, bench, os.environ):
        checks += _check_in_own_process(part, variables, over)
        if over.is_set():
            checks.append(_interrupted(mode, "the others"))
            break
        if all(check.outcome != "passed" for check in checks):
            break  # the mode cannot run here, or is broken, which need not be said again
    return checks


def _interrupted(mode: Mode, options: str) -> Check:
    return Check(mode=mode.name, options=options, outcome=NOT_REACHED, problem="interrupted")


def _check_in_own_process(
    part: Part, variables: Mapping[str, str], over: threading.Event
) -> list[Check]:
    """Start a process with these variables, beside those that every one has; end it when it is
    `over`.
    """
    mode, bench = part.mode, part.bench
    with TemporaryDirectory() as folder:
        out, log = Path(folder) / "checks.jsonl", Path(folder) / "log.txt"
        out.touch()
        checks_of = "own_model_check" if bench.model else "mode_check"
        if VARIABLE_UPDATES[mode.variable_update].is_of_one_host and not bench.model:
            checks_of = "workers_check"
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
                module_command(f"trainer.check.{checks_of}", part.to_json(), str(out)),
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                env=environment,
                process_group=0,  # Ctrl-C and `timeout` signal a group: this one is ended from here
            )
            try:
                problem = _how_it_failed(process, out, over)
            finally:
                process.kill()
                process.wait()
        checks = [Check(**json.loads(line)) for line in out.read_text().splitlines()]
        if problem:
            last = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
            problem = f"{problem}: {quoted(last, 300)}"
            checks.append(Check(mode=mode.name, options="-", outcome="failed", problem=problem))
        return checks


def _how_it_failed(process: subprocess.Popen[bytes], out: Path, over: threading.Event) -> str:
    """Wait for a mode's process, as long as it writes checks and it is not over; empty where it
    ended well.
    """
    num_bytes, seen_s = 0, time.monotonic()
    while not over.is_set():
        try:
            exit_code = process.wait(LOOK_EVERY_S)
            return f"its process ended with {exit_code}" if exit_code else ""
        except subprocess.TimeoutExpired:
            now_s, written = time.monotonic(), out.stat().st_size
        if written != num_bytes:
            num_bytes, seen_s = written, now_s
        elif now_s - seen_s >= CHECK_TIMEOUT_S:
            return f"hung for {CHECK_TIMEOUT_S:.0f} s"
    return ""


def _counted(checks: Sequence[Check]) -> str:
    counts = Counter(check.outcome for check in checks)
    found = (
        f"{counts['passed']} checks passed, {counts['failed']} failed, {counts['unsupported']} "
        "cannot run here"
    )
    return f"{found}, {counts[NOT_REACHED]} not reached" if counts[NOT_REACHED] else found


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

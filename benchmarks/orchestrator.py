"""Measures what the orchestrator costs, beside stock Hydra and a shell loop.

`python -m benchmarks.orchestrator [--only QUESTION] [--rounds N] [--quick] [--json FILE]` prints a
Markdown table of ratios. In a round every side has its turn, in random order; a ratio is that of
one round, a row shows the median of the rounds and its 95 % interval. Other launchers were measured
once: 64 trials of nothing took 0.95 s here, 9 to 10 s with joblib, 30 s with submitit and 55 to
70 s with Ray Tune.
"""

from __future__ import annotations

import os
import pty
import random
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread

from benchmarks.asking import parser
from benchmarks.cost import BrokenError, Cost, environment, run, sweep, tail
from benchmarks.noop_sweep import TINY, TRAINER, check_completed, prepare
from benchmarks.ratio import Ratio, Want, machine, table, write_json

SEED = 1  # of the orders in rounds
PLANNING_LIMIT_S, PLANNING_LIMIT_MB = 10.0, 500.0
ATTEMPT_LIMIT_S = 0.1
IDLE_LIMIT_CORES, IDLE_LIMIT_MB = 0.02, 300.0
PATIENCE_S = 600.0  # until trials run
END_PATIENCE_S = 30.0  # from SIGINT to the end
LOOK_EVERY_S = 0.2
TERMINAL_SIZE = (40, 120)  # rows, columns
INTERRUPTED = 130
_GRID = {
    "model": "resnet50,vgg16,alexnet,resnet18_cifar,trivial",
    "strategy": "ps_cpu,ps_gpu,replicated_none,replicated_pscpu",
    "num_gpus": "1,2,4,8",
}
_SEEDS_PER_TRIAL = 80  # cells of the axes above


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much each question measures."""

    num_rounds: int
    num_planned: int = 10_000  # trials planned by ours, and pending while its memory is looked at
    # jobs that stock Hydra composes; per job is the difference
    num_composed: tuple[int, int] = (20, 200)
    num_noops: tuple[int, int] = (4, 64)  # attempts of `overhead`; per attempt is the difference
    watched_s: float = 20.0  # how long the orchestrator is looked at in `idle_cost`


def planning(settings: Settings) -> list[Ratio]:
    """Expand, check and plan a large grid: our dry run beside stock Hydra composing the grid.

    Stock Hydra's time per job is measured between two numbers of jobs, so that its start does not
    count; ours is, from the start of the process. A straight line extrapolates to the whole grid.
    """
    few, many = settings.num_composed
    sides: dict[str, Callable[[Path], Cost]] = {
        "ours": lambda folder: _dry_run(settings.num_planned, folder),
        "few": lambda folder: _stock(few, folder),
        "many": lambda folder: _stock(many, folder),
    }
    costs = _taken_in_turns(sides, settings.num_rounds)
    stock = []
    for few_cost, many_cost in zip(costs["few"], costs["many"], strict=True):
        factor = settings.num_planned / (many - few)
        more_bytes = (many_cost.peak_bytes - few_cost.peak_bytes) * factor
        cost = Cost(
            wall_s=(many_cost.wall_s - few_cost.wall_s) * factor,
            cpu_s=(many_cost.cpu_s - few_cost.cpu_s) * factor,
            peak_bytes=round(few_cost.peak_bytes + more_bytes),
        )
        stock.append(cost)
    wall_s = [cost.wall_s for cost in costs["ours"]]
    cpu_s = [cost.cpu_s for cost in costs["ours"]]
    peak_mb = [cost.peak_bytes / 1e6 for cost in costs["ours"]]
    names = {"name": "planning", "ours": "dry run", "peer": "stock Hydra (extrapolated)"}
    peer_mb = [cost.peak_bytes / 1e6 for cost in stock]
    return [
        _ratio({**names, "metric": "wall s"}, wall_s, [cost.wall_s for cost in stock]),
        _ratio({**names, "metric": "CPU s"}, cpu_s, [cost.cpu_s for cost in stock]),
        _ratio({**names, "metric": "peak MB"}, peak_mb, peer_mb),
        _limited({**names, "metric": "wall s"}, wall_s, PLANNING_LIMIT_S),
        _limited({**names, "metric": "peak MB"}, peak_mb, PLANNING_LIMIT_MB),
    ]


def grid(num_trials: int) -> list[str]:
    """Return sweeps over about so many trials, all of which can run on CPU devices."""
    seeds = max(1, num_trials // _SEEDS_PER_TRIAL)
    return [*(f"{axis}={values}" for axis, values in _GRID.items()), f"seed=range(1,{seeds + 1})"]


def _dry_run(num_trials: int, folder: Path) -> Cost:
    command = sweep("-m", *grid(num_trials), "hardware=cpu", "sweep.dry_run=true")
    cost = run(command, folder, watch_memory=True)
    if not (folder / "output.txt").stat().st_size:
        raise BrokenError("the dry run printed no plan")
    return cost


def _stock(num_jobs: int, folder: Path) -> Cost:
    """Compose the same axes; so many values of one of them that there are `num_jobs` jobs."""
    axes = ["strategy=ps_cpu,replicated_none", f"seed=range(1,{num_jobs // 2 + 1})"]
    command = [sys.executable, "-m", "benchmarks.stock_hydra", "-m", *axes]
    cost = run(command, folder, watch_memory=True)
    num_composed = (folder / "output.txt").read_text().count("composed\n")
    if num_composed != num_jobs:
        raise BrokenError(f"stock Hydra composed {num_composed} jobs, wanted {num_jobs}")
    return cost


def overhead(settings: Settings) -> list[Ratio]:
    """Measure what an attempt costs besides its trial: attempts that do nothing, with fork start,
    every state recorded in the database.

    Measured between two numbers of attempts, so that what a sweep costs once, the start of the fork
    server among it, is not in it. The peer is a shell that starts a bare Python for the same
    program, records nothing, and has no TensorFlow loaded.
    """
    few, many = settings.num_noops
    sides: dict[str, Callable[[Path], Cost]] = {
        "ours few": lambda folder: _noop_sweep(few, folder),
        "ours many": lambda folder: _noop_sweep(many, folder),
        "loop few": lambda folder: _shell_loop(few, folder),
        "loop many": lambda folder: _shell_loop(many, folder),
    }
    costs = _taken_in_turns(sides, settings.num_rounds)
    wall_s: dict[str, list[float]] = {}
    cpu_s: dict[str, list[float]] = {}
    for side in ("ours", "loop"):
        pairs = list(zip(costs[f"{side} few"], costs[f"{side} many"], strict=True))
        wall_s[side] = [(b.wall_s - a.wall_s) / (many - few) for a, b in pairs]
        cpu_s[side] = [(b.cpu_s - a.cpu_s) / (many - few) for a, b in pairs]
    names = {"name": "overhead", "ours": "ours fork", "peer": "shell loop"}
    by_wall = {**names, "metric": "wall s per attempt"}
    return [
        _ratio(by_wall, wall_s["ours"], wall_s["loop"]),
        _ratio({**names, "metric": "CPU s per attempt"}, cpu_s["ours"], cpu_s["loop"]),
        _limited(by_wall, wall_s["ours"], ATTEMPT_LIMIT_S),
    ]


def _noop_sweep(num_attempts: int, folder: Path) -> Cost:
    return run([sys.executable, "-m", "benchmarks.noop_sweep", str(num_attempts)], folder)


def _shell_loop(num_attempts: int, folder: Path) -> Cost:
    folders = prepare(folder, num_attempts)
    trial = f'{sys.executable} -m {TRAINER} "$folder/trial.json" "$folder"'
    script = f'for folder; do {trial} >>"$folder/log.txt" 2>&1 || exit; done'
    cost = run(["sh", "-c", script, "loop", *map(str, folders)], folder)
    check_completed(folders, tail(folder / "output.txt"))
    return cost


def idle_cost(settings: Settings) -> list[Ratio]:
    """Measure what the orchestrator itself costs while a trial runs, its children apart: share of
    a core, and memory. A terminal shows the live view; one trial and a large grid are pending.
    """
    grids = {
        "one long trial": ["seed=1"],
        f"{settings.num_planned} pending": ["-m", f"seed=range(1,{settings.num_planned + 1})"],
    }
    seen: dict[str, list[Seen]] = {side: [] for side in grids}
    for order in rounds(settings.num_rounds, list(grids)):
        for side in order:
            with tempfile.TemporaryDirectory() as folder:
                seen[side].append(_watch(grids[side], Path(folder), settings.watched_s))
            print(f"  {side}: {seen[side][-1]}", file=sys.stderr)
    rows = []
    for side, looks in seen.items():
        names = {"name": "idle_cost", "ours": side}
        cores = [look.core_share for look in looks]
        peak_mb = [look.peak_bytes / 1e6 for look in looks]
        rows.append(_limited({**names, "metric": "share of a core"}, cores, IDLE_LIMIT_CORES))
        rows.append(_limited({**names, "metric": "peak MB"}, peak_mb, IDLE_LIMIT_MB))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The process of the sweep, without its children."""

    core_share: float  # CPU seconds of all its threads per second, while a trial ran
    peak_bytes: int  # since it started, planning included


def _watch(arguments: list[str], folder: Path, watched_s: float) -> Seen:
    """Start a sweep of trials that take long, wait until one takes steps, look at the sweep's own
    process, and interrupt it.
    """
    output = folder / "output.txt"
    long = [each.replace("window_s=0", f"window_s={PATIENCE_S:g}") for each in TINY]
    with _sweep([*arguments, *long], folder) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not any(path.stat().st_size for path in folder.glob("runs/*/*/steps.jsonl")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BrokenError(f"no step within {PATIENCE_S:g} s:\n{tail(output)}")
            time.sleep(LOOK_EVERY_S)
        start, cpu_before_s = time.monotonic(), _cpu_s(process.pid)
        time.sleep(watched_s)
        if process.poll() is not None:
            raise BrokenError(f"the sweep ended while it was looked at:\n{tail(output)}")
        core_share = (_cpu_s(process.pid) - cpu_before_s) / (time.monotonic() - start)
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak_bytes = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        process.send_signal(signal.SIGINT)
        exit_code = process.wait(END_PATIENCE_S)
        if exit_code != INTERRUPTED:
            raise BrokenError(f"interrupted, the sweep ended with {exit_code}:\n{tail(output)}")
    return Seen(core_share=core_share, peak_bytes=peak_bytes)


@contextmanager
def _sweep(arguments: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a sweep on a terminal; kill it at the end where it still runs."""
    with (folder / "output.txt").open("ab") as output:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, TERMINAL_SIZE)
        process = subprocess.Popen(
            sweep(*arguments),
            cwd=folder,
            env={**environment(), "TERM": "xterm"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=theirs,
        )
        os.close(theirs)
        Thread(target=_drain, args=(ours, output.fileno()), daemon=True).start()
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _drain(terminal: int, output: int) -> None:
    """Copy what is drawn on the terminal into a file: unread, it makes the sweep wait."""
    with open(terminal, "rb", buffering=0) as drawn:
        while select.select([drawn], [], []):
            try:
                os.write(output, drawn.read(65536))
            except OSError:  # Linux says EIO when the other side is closed
                return


def _cpu_s(pid: int) -> float:
    """Return the CPU time of all its threads, without its children: Linux's clock of that process,
    as clock_getcpuclockid(3) numbers it.

    /proc/PID/stat counts in ticks of 10 ms, which is half of what may be used in a second.
    """
    return time.clock_gettime((~pid << 3) | 2)


def rounds(num_rounds: int, sides: Sequence[str]) -> Iterator[list[str]]:
    """Yield the sides in a random order for each round, so that drift hits all alike."""
    order = random.Random(SEED)
    for _ in range(num_rounds):
        yield order.sample(sides, len(sides))


def _taken_in_turns(
    sides: Mapping[str, Callable[[Path], Cost]], num_rounds: int
) -> dict[str, list[Cost]]:
    """Run each side once a round, in a new folder; return the costs of each by round."""
    costs: dict[str, list[Cost]] = {side: [] for side in sides}
    for order in rounds(num_rounds, list(sides)):
        for side in order:
            with tempfile.TemporaryDirectory() as folder:
                costs[side].append(sides[side](Path(folder)))
    return costs


def _ratio(names: Mapping[str, str], ours: list[float], theirs: list[float]) -> Ratio:
    pairs = list(zip(ours, theirs, strict=True))
    return Ratio(**names, pairs=pairs, target=None, want=Want.AT_MOST)


def _limited(names: Mapping[str, str], ours: list[float], limit: float) -> Ratio:
    pairs = [(value, limit) for value in ours]
    return Ratio(**{**names, "peer": "limit"}, pairs=pairs, target=1.0, want=Want.AT_MOST)


QUESTIONS = {"planning": planning, "overhead": overhead, "idle_cost": idle_cost}


def main(arguments: Sequence[str]) -> int:
    asked = parser(
        __doc__, only=QUESTIONS, rounds="turns of every side (default 5)", writes_json=True
    )
    asked.add_argument("--quick", action="store_true", help="a tiny smoke test")
    options = asked.parse_args(arguments)
    settings = Settings(num_rounds=options.rounds or 5)
    if options.quick:  # as little as shows that everything works
        settings = Settings(
            num_rounds=options.rounds or 1,
            num_planned=160,
            num_composed=(2, 4),
            num_noops=(1, 3),
            watched_s=3.0,
        )
    rows: list[Ratio] = []
    broken: dict[str, str] = {}
    for name in options.only or QUESTIONS:
        print(name, file=sys.stderr)
        try:
            rows += QUESTIONS[name](settings)
        except BrokenError as error:
            broken[name] = str(error)
            print(f"  broken: {error}", file=sys.stderr)
        # after each question: the next one may take long
        reported = [row.reported() for row in rows]
        write_json(options.json, reported, settings=asdict(settings), broken=broken)
    print(table(rows))
    print(f"\n{machine()}; {settings.num_rounds} rounds.")
    if options.quick:
        print("\nA smoke test: the numbers mean nothing.")
    return 1 if broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

"""Measures what watching a user's program costs, and how far our number is from the program's.

`python -m benchmarks.command [--only QUESTION] [--rounds N] [--quick] [--json FILE]` prints a
Markdown table; a row shows the median of its rounds and its 95 % interval.

- Per trial: in a round a program runs bare, its output in a file, and watched, started by the fork
  server and looked at as an orchestrator does, in random order. Its steps, which it times itself,
  do not count.
- Per step: a watched program takes pairs of blocks of equal steps, in random order; during one
  block of a pair its watcher is stopped, and its output goes to a file. Two runs
  on a shared machine are never as alike as two blocks that follow one another.
- Agreement: a watched program times its own steps and prints them as tf_cnn_benchmarks does. Our
  throughput is compared with what it prints: for its whole run, of which we leave out what we take
  for warm-up, and for the very steps that we measured. A ratio is the difference of one run over
  the limit of 0.5 %.
"""

from __future__ import annotations

import hashlib
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.asking import parser
from benchmarks.orchestrator import rounds
from benchmarks.ratio import Ratio, Want, machine, table, write_json
from conf.schema import LauncherConfig
from scalemark.records.measurement import AttemptResult
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from sweeper.loop.attempt import Attempt
from sweeper.starts import Fork, environment

STEP_LIMIT = 1.01  # watched over bare
TRIAL_LIMIT_S = 0.1
LIMITS = LauncherConfig(
    name="local", timeout_s=600, start_timeout_s=60, step_timeout_s=60, grace_s=5
)
BLOCK_S = 0.2
FEWEST_STEPS = 8  # of a whole run: the lines of two may come at once on a busy machine
PAIRS_PER_ROUND = 20
AGREEMENT_LIMIT = 0.005  # of the program's own number
BATCH = 64
READ = (
    r"regex:^(?P<step>\d+)\s+images/sec: (?P<mean_throughput>\S+)"
    r"|total images/sec: (?P<total>\S+)"
)
REPORTING_PROGRAM = """
import hashlib, statistics, sys, time
num_steps, num_hashes, display_every, batch = map(int, sys.argv[1:5])
block = bytes(1024)
def step():
    for _ in range(num_hashes):
        hashlib.sha256(block).digest()
for _ in range(10):  # as tf_cnn_benchmarks does
    step()
print("Step\\tImg/sec\\ttotal_loss", flush=True)
times, ends = [], []
begin = time.time()
for number in range(1, num_steps + 1):
    start = time.time()
    step()
    times.append(time.time() - start)
    if number == 1 or number % display_every == 0:
        speeds = [batch / one for one in times]
        mean = batch / statistics.fmean(times)
        error = statistics.pstdev(speeds) / len(speeds) ** 0.5
        middle = statistics.median(speeds)
        jitter = 1.4826 * statistics.median(abs(one - middle) for one in speeds)
        said = f"images/sec: {mean:.1f} +/- {error:.1f} (jitter = {jitter:.1f})"
        print(f"{number}\\t{said}\\t7.123", flush=True)
    ends.append(time.time() - begin)
print("-" * 64)
print(f"total images/sec: {batch * num_steps / (time.time() - begin):.2f}", flush=True)
open(sys.argv[5], "w").write("\\n".join(map(str, ends)))
"""
_STEP = """
import hashlib, os, random, signal, sys, time
num_steps, num_hashes = int(sys.argv[1]), int(sys.argv[2])
block, number = bytes(1024), 0
def take_steps():
    global number
    begin = time.perf_counter()
    for _ in range(num_steps):
        for _ in range(num_hashes):
            hashlib.sha256(block).digest()
        number += 1
        print(f"step {number} loss 1.5", flush=True)
    return time.perf_counter() - begin
"""
PROGRAM = f"""{_STEP}
open(sys.argv[3], "w").write(str(take_steps()))
"""
PAIRED_PROGRAM = f"""{_STEP}
bare = os.open(sys.argv[3] + ".log", os.O_WRONLY | os.O_CREAT)
watcher, outputs = os.getppid(), dict(watched=os.dup(1), bare=bare)
signals = dict(watched=signal.SIGCONT, bare=signal.SIGSTOP)
def block_of(side):
    os.dup2(outputs[side], 1)
    os.kill(watcher, signals[side])
    return take_steps()
block_of("watched")
with open(sys.argv[3], "w") as file:
    for _ in range(int(sys.argv[4])):
        took = dict((side, block_of(side)) for side in random.sample(["watched", "bare"], 2))
        print(took["watched"], took["bare"], file=file)
block_of("watched")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program of so many steps per second, which shows every so many of them."""

    steps_per_s: int
    display_every: int
    seconds: float

    @property
    def num_steps(self) -> int:
        return round(self.steps_per_s * self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """The throughput of one run, images/s."""

    ours: float
    of_run: float  # as the program prints it
    of_same_steps: float  # by the program's own clock, of the steps that ours is of


def main(arguments: Sequence[str]) -> int:
    asked = parser(__doc__, only=QUESTIONS, rounds="pairs of runs (default 20)", writes_json=True)
    asked.add_argument("--quick", action="store_true", help="a tiny smoke test")
    options = asked.parse_args(arguments)
    num_rounds = options.rounds or (1 if options.quick else 20)
    rows: list[Ratio] = []
    start = Fork("command.__main__")
    try:
        for question in options.only or QUESTIONS:
            rows += QUESTIONS[question](num_rounds, start, options.quick)
    finally:
        start.close()
    write_json(options.json, [row.reported() for row in rows])
    print(table(rows))
    print(f"\n{machine()}; {num_rounds} rounds, of {PAIRS_PER_ROUND} pairs of blocks each.")
    return 0


def costs(num_rounds: int, start: Fork, is_quick: bool) -> list[Ratio]:
    """Measure what watching costs programs of fast and slow steps."""
    rows: list[Ratio] = []
    for steps_per_s in (1000,) if is_quick else (1000, 100, 10):
        rows += _measure(steps_per_s, num_rounds, start)
    return rows


def agreement(num_rounds: int, start: Fork, is_quick: bool) -> list[Ratio]:
    """Compare our number with the program's own, of the same runs."""
    seconds = 1.0 if is_quick else 10.0
    slow = Case(steps_per_s=10, display_every=1, seconds=max(3.0, seconds))
    fast = Case(steps_per_s=100, display_every=10, seconds=max(3.0, seconds))
    return [*_agreement(slow, num_rounds, start), *_agreement(fast, num_rounds, start)]


QUESTIONS = {"costs": costs, "agreement": agreement}


def _measure(steps_per_s: int, num_rounds: int, start: Fork) -> list[Ratio]:
    numbers = [round(steps_per_s * BLOCK_S), hashes_in(1 / steps_per_s)]
    of_run = [max(numbers[0], FEWEST_STEPS), numbers[1]]
    num_pairs = num_rounds * PAIRS_PER_ROUND
    extra_s: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        (folder / "paired.py").write_text(PAIRED_PROGRAM)
        # the first one starts the server, and asks the interpreter what it has installed
        _watched(["program.py", *of_run, folder / "first.txt"], folder / "first", start)
        for number, order in enumerate(rounds(num_rounds, ["bare", "watched"])):
            beside_s = {}
            for side in order:
                run = _watched if side == "watched" else _bare
                took = folder / f"{side}{number}.txt"
                wall_s = run(["program.py", *of_run, took], folder / f"{side}{number}", start)
                beside_s[side] = wall_s - float(took.read_text())
            extra_s.append(beside_s["watched"] - beside_s["bare"])
        blocks = folder / "blocks.txt"
        _watched(["paired.py", *numbers, blocks, num_pairs], folder / "paired", start)
        pairs = []
        for line in blocks.read_text().splitlines():
            watched_s, bare_s = line.split()
            pairs.append((float(watched_s), float(bare_s)))
    what = f"{steps_per_s} steps/s"
    print(
        f"  {what}: {statistics.median(extra_s) * 1e3:.0f} ms per trial beside its steps",
        file=sys.stderr,
    )
    return [
        Ratio(
            name=what,
            ours="watched",
            peer="bare",
            metric="step time",
            pairs=pairs,
            target=STEP_LIMIT,
            want=Want.AT_MOST,
        ),
        Ratio(
            name=what,
            ours="watched - bare",
            peer="limit",
            metric="s per trial",
            pairs=[(extra, TRIAL_LIMIT_S) for extra in extra_s],
            target=1.0,
            want=Want.AT_MOST,
        ),
    ]


def _bare(arguments: Sequence[object], at: Path, _: Fork) -> float:
    """Return the seconds from before its start to its end."""
    at.mkdir()
    with (at / "log.txt").open("wb") as log:
        start_s = time.monotonic()
        subprocess.run(
            _command(arguments),
            cwd=at.parent,
            env=environment(os.environ, ""),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )
        return time.monotonic() - start_s


def _watched(arguments: Sequence[object], at: Path, start: Fork) -> float:
    """Return the seconds from before its start to its end."""
    at.mkdir()
    spec = _spec(" ".join(_command(arguments)))
    variables = environment(os.environ, "")
    start_s = time.monotonic()
    watched(spec, at, start, variables)
    return time.monotonic() - start_s


def watched(spec: TrialSpec, at: Path, start: Fork, variables: Mapping[str, str]) -> AttemptResult:
    """Run a trial as an orchestrator does, in the folder above its own. Its outcome is for the
    caller to judge: a program whose lines were read all at once, since the machine was busy, took
    its steps although no number follows from them.
    """
    folder = RunFolder(at)
    folder.trial.write_text(spec.to_json())
    process = start.start(folder, {**variables, "SCALEMARK_WORKDIR": str(at.parent)})
    attempt = Attempt(folder, process, LIMITS)
    while (ended := attempt.ended()) is None:
        select.select([attempt.descriptor], [], [], attempt.next_look_s())
        attempt.look()
    result = folder.read_result()
    if result is None:
        raise SystemExit(f"{ended}\n{folder.log.read_text()}")
    return result


def _agreement(case: Case, num_runs: int, start: Fork) -> list[Ratio]:
    num_hashes = hashes_in(1 / case.steps_per_s)
    variables = environment(os.environ, "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(REPORTING_PROGRAM)
        seen = [
            _run(case, num_hashes, folder / str(number), start, variables)
            for number in range(num_runs)
        ]
    name = f"{case.steps_per_s} steps/s, every {case.display_every} shown"
    against = {
        "whole run": [(one.ours, one.of_run) for one in seen],
        "same steps": [(one.ours, one.of_same_steps) for one in seen],
    }
    rows = []
    for peer, pairs in against.items():
        differences = [ours / own - 1 for ours, own in pairs]
        print(f"  {name}, {peer}: median {statistics.median(differences):+.3%}", file=sys.stderr)
        rows.append(
            Ratio(
                name=name,
                ours="difference",
                peer=peer,
                metric=f"{AGREEMENT_LIMIT:.1%} of its own number",
                pairs=[(abs(difference), AGREEMENT_LIMIT) for difference in differences],
                target=1.0,
                want=Want.AT_MOST,
            )
        )
    return rows


def _run(
    case: Case, num_hashes: int, at: Path, start: Fork, variables: Mapping[str, str]
) -> Speeds:
    at.mkdir()
    ends_file = at / "ends.txt"
    numbers = [case.num_steps, num_hashes, case.display_every, BATCH]
    command = " ".join([sys.executable, "program.py", *map(str, numbers), str(ends_file)])
    spec = _spec(command, min_warm_up_steps=0, read=READ, items_per_step=str(BATCH))
    result = watched(spec, at, start, variables)
    measured = result.measurement
    if measured is None or measured.reported:
        raise SystemExit(f"no steps were measured: {result.message}")
    log = (at / "log.txt").read_text()
    ends_s = [float(line) for line in ends_file.read_text().split()]
    window_s = ends_s[-1] - ends_s[-1 - measured.num_steps]
    return Speeds(
        ours=measured.throughput,
        of_run=float(log.rpartition("total images/sec:")[2].split()[0]),
        of_same_steps=BATCH * measured.num_steps / window_s,
    )


def _command(arguments: Sequence[object]) -> list[str]:
    return [sys.executable, *map(str, arguments)]


def _spec(command: str, **axes: object) -> TrialSpec:
    usual = {
        "engine": "command",
        "model": "program",
        "num_gpus": 1,
        "device_kind": "cpu_device",
        "seed": 1,
        "min_warm_up_steps": 1,
        "command": command,
        "read": "regex:step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)",
    }
    return TrialSpec.of(usual | axes)


def hashes_in(seconds: float) -> int:
    """Count how many hashes of the program fit into so many seconds."""
    block, num_hashes = bytes(1024), 20_000
    begin = time.perf_counter()
    for _ in range(num_hashes):
        hashlib.sha256(block).digest()
    return max(1, round(seconds * num_hashes / (time.perf_counter() - begin)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

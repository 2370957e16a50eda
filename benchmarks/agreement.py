"""How far our number of a program is from the program's own.

`python benchmarks/agreement.py [--rounds N] [--quick] [--json FILE]` prints a Markdown table. A
program that times its own steps and prints them as tf_cnn_benchmarks does runs watched. Our
throughput is compared with what it prints: for its whole run, of which we leave out what we take
for warm-up, and for the very steps that we measured. A ratio is the difference of one run over the
limit of 0.5 %; a row shows the median of the runs and its 95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # beside this file lies another `trainer`

from benchmarks.command import hashes_in, watched
from benchmarks.ratio import Ratio, Want, machine, table, write_json
from scalemark.records.trial import TrialSpec
from sweeper.starts import Fork
from sweeper.starts.environment import environment

LIMIT = 0.005  # of the program's own number
BATCH = 64
PROGRAM = """
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
class Seen:
    """The throughput of one run, images/s."""

    ours: float
    of_run: float  # as the program prints it
    of_same_steps: float  # by the program's own clock, of the steps that ours is of


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    num_runs = options.rounds or (1 if options.quick else 20)
    seconds = 1.0 if options.quick else 10.0
    cases = [
        Case(steps_per_s=10, display_every=1, seconds=max(3.0, seconds)),
        Case(steps_per_s=100, display_every=10, seconds=seconds),
    ]
    rows: list[Ratio] = []
    start = Fork("command.__main__")
    try:
        for case in cases:
            rows += _measure(case, num_runs, start)
    finally:
        start.close()
    write_json(options.json, [row.reported() for row in rows])
    print(table(rows))
    print(f"\n{machine()}; {num_runs} runs of each.")
    return 0


def _measure(case: Case, num_runs: int, start: Fork) -> list[Ratio]:
    num_hashes = hashes_in(1 / case.steps_per_s)
    variables = environment(os.environ, "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
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
                metric=f"{LIMIT:.1%} of its own number",
                pairs=[(abs(difference), LIMIT) for difference in differences],
                target=1.0,
                want=Want.AT_MOST,
            )
        )
    return rows


def _run(case: Case, num_hashes: int, at: Path, start: Fork, variables: Mapping[str, str]) -> Seen:
    at.mkdir()
    ends_file = at / "ends.txt"
    numbers = [case.num_steps, num_hashes, case.display_every, BATCH]
    command = " ".join([sys.executable, "program.py", *map(str, numbers), str(ends_file)])
    result = watched(_spec(command), at, start, variables)
    measured = result.measurement
    if measured is None or measured.reported:
        raise SystemExit(f"no steps were measured: {result.message}")
    log = (at / "log.txt").read_text()
    ends_s = [float(line) for line in ends_file.read_text().split()]
    window_s = ends_s[-1] - ends_s[-1 - measured.num_steps]
    return Seen(
        ours=measured.throughput,
        of_run=float(log.rpartition("total images/sec:")[2].split()[0]),
        of_same_steps=BATCH * measured.num_steps / window_s,
    )


def _spec(command: str) -> TrialSpec:
    return TrialSpec.of(
        {
            "engine": "command",
            "model": "program",
            "num_gpus": 1,
            "device_kind": "cpu_device",
            "seed": 1,
            "min_warm_up_steps": 0,
            "command": command,
            "read": "tf_cnn_benchmarks",
            "items_per_step": str(BATCH),
        }
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="How far our number of a program is from the program's own."
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each (default 20)")
    parser.add_argument("--quick", action="store_true", help="a tiny smoke test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs there")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What watching a user's program costs, beside the bare command.

`python benchmarks/command.py [--rounds N] [--quick] [--json FILE]` prints a Markdown table. In a
round each program runs bare, its output in a file, and watched, started by the fork server and
looked at as an orchestrator does, in random order. The program does the same work in each step and
times its own steps. A ratio is that of one round; a row shows the median of the rounds and its
95 % bootstrap interval.
"""

from __future__ import annotations

import argparse
import hashlib
import json
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

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)  # beside this file lies another `trainer`

from benchmarks.orchestration.settings import rounds
from benchmarks.ratio import Ratio, Want, machine, table
from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder
from sweeper.running.attempt import Attempt, Limits
from sweeper.starts import Fork
from sweeper.starts.environment import environment

STEP_LIMIT = 1.01  # watched over bare
TRIAL_LIMIT_S = 0.1
LIMITS = Limits(timeout_s=600, start_timeout_s=60, step_timeout_s=60, grace_s=5)
PROGRAM = """
import hashlib, sys, time
num_steps, num_hashes = int(sys.argv[1]), int(sys.argv[2])
block = bytes(1024)
def step():
    for _ in range(num_hashes):
        hashlib.sha256(block).digest()
step()
begin = time.perf_counter()
for number in range(1, num_steps + 1):
    step()
    print(f"step {number} loss 1.5", flush=True)
elapsed = time.perf_counter() - begin
open(sys.argv[3], "w").write(str(elapsed))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program that prints so many lines per second."""

    steps_per_s: int
    seconds: float

    @property
    def num_steps(self) -> int:
        return round(self.steps_per_s * self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run took."""

    wall_s: float  # from before its start to its end
    steps_s: float  # of all its steps, by its own clock


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    seconds = 0.3 if options.quick else 3.0
    num_rounds = options.rounds or (1 if options.quick else 20)
    cases = [Case(steps_per_s=rate, seconds=seconds) for rate in (1000, 10)]
    start = Fork("command.__main__")
    try:
        rows = [row for case in cases for row in _measure(case, num_rounds, start)]
    finally:
        start.close()
    if options.json:
        reported = {"machine": machine(), "rows": [row.reported() for row in rows]}
        options.json.write_text(json.dumps(reported, indent=1) + "\n")
    print(table(rows))
    print(f"\n{machine()}; {num_rounds} rounds.")
    return 0


def _measure(case: Case, num_rounds: int, start: Fork) -> list[Ratio]:
    num_hashes = hashes_in(1 / case.steps_per_s)
    seen: dict[str, list[Cost]] = {"bare": [], "watched": []}
    variables = environment(os.environ, "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        # the first one starts the server, and asks the interpreter what it has installed
        _watched(case, num_hashes, folder / "first", start, variables)
        for number, order in enumerate(rounds(num_rounds, list(seen))):
            for side in order:
                at = folder / f"{side}{number}"
                if side == "bare":
                    seen[side].append(_bare(case, num_hashes, at, variables))
                else:
                    seen[side].append(_watched(case, num_hashes, at, start, variables))
    pairs = list(zip(seen["watched"], seen["bare"], strict=True))
    extra_s = [
        (watched.wall_s - watched.steps_s) - (bare.wall_s - bare.steps_s) for watched, bare in pairs
    ]
    print(
        f"  {case.steps_per_s} steps/s: {statistics.median(extra_s) * 1e3:.0f} ms per trial beside "
        "its steps",
        file=sys.stderr,
    )
    what = f"{case.steps_per_s} steps/s"
    return [
        Ratio(
            name=what,
            ours="watched",
            peer="bare",
            metric="step time",
            pairs=[(watched.steps_s, bare.steps_s) for watched, bare in pairs],
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


def _bare(case: Case, num_hashes: int, at: Path, variables: Mapping[str, str]) -> Cost:
    at.mkdir()
    with (at / "log.txt").open("wb") as log:
        start_s = time.monotonic()
        subprocess.run(
            _command(case, num_hashes, at),
            cwd=at.parent,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )
        wall_s = time.monotonic() - start_s
    return Cost(wall_s=wall_s, steps_s=float((at / "elapsed.txt").read_text()))


def _watched(
    case: Case, num_hashes: int, at: Path, start: Fork, variables: Mapping[str, str]
) -> Cost:
    at.mkdir()
    spec = _spec(" ".join(_command(case, num_hashes, at)))
    start_s = time.monotonic()
    watched(spec, at, start, variables)
    wall_s = time.monotonic() - start_s
    return Cost(wall_s=wall_s, steps_s=float((at / "elapsed.txt").read_text()))


def watched(spec: TrialSpec, at: Path, start: Fork, variables: Mapping[str, str]) -> Result:
    """Run a trial as an orchestrator does, in the folder above its own. Ends the benchmark where
    it does not complete.
    """
    folder = RunFolder(at)
    folder.trial.write_text(spec.to_json())
    process = start.start(folder, {**variables, "SCALEMARK_WORKDIR": str(at.parent)})
    attempt = Attempt(folder, process, LIMITS)
    while (ended := attempt.ended()) is None:
        select.select([attempt.descriptor], [], [], attempt.next_look_s())
        attempt.look()
    result = folder.read_result()
    if result is None or result.outcome != Outcome.COMPLETED:
        raise SystemExit(f"{ended}\n{folder.log.read_text()}")
    return result


def _command(case: Case, num_hashes: int, at: Path) -> list[str]:
    numbers = [str(case.num_steps), str(num_hashes)]
    return [sys.executable, "program.py", *numbers, str(at / "elapsed.txt")]


def _spec(command: str) -> TrialSpec:
    return TrialSpec.of(
        {
            "engine": "command",
            "model": "program",
            "num_gpus": 1,
            "device_kind": "cpu_device",
            "seed": 1,
            "min_warm_up_steps": 1,
            "command": command,
            "read": "regex:step (?P<step>[0-9]+) loss (?P<loss>[0-9.]+)",
        }
    )


def hashes_in(seconds: float) -> int:
    """Count how many hashes of the program fit into so many seconds."""
    block, num_hashes = bytes(1024), 20_000
    begin = time.perf_counter()
    for _ in range(num_hashes):
        hashlib.sha256(block).digest()
    return max(1, round(seconds * num_hashes / (time.perf_counter() - begin)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="What watching a user's program costs, beside the bare command."
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="pairs of runs (default 20)")
    parser.add_argument("--quick", action="store_true", help="a tiny smoke test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Measures what the orchestrator costs, beside stock Hydra and a shell loop.

`python benchmarks/orchestrator.py [--only QUESTION] [--rounds N] [--quick] [--json FILE]` prints a
Markdown table of ratios. In a round every side has its turn, in random order; a ratio is that of
one round, a row shows the median of the rounds and its 95 % bootstrap interval. Other launchers
were measured once: 64 trials of nothing took 0.95 s here, 9 to 10 s with joblib, 30 s with submitit
and 55 to 70 s with Ray Tune.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies another `trainer`

from benchmarks.orchestration import idle_cost, overhead, planning
from benchmarks.orchestration.settings import BrokenError, Settings, quick
from benchmarks.ratio import Ratio, machine, table, write_json

QUESTIONS = {
    "planning": planning.measure,
    "overhead": overhead.measure,
    "idle_cost": idle_cost.measure,
}


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    settings = (
        quick(options.rounds or 1) if options.quick else Settings(num_rounds=options.rounds or 5)
    )
    rows: list[Ratio] = []
    broken: dict[str, str] = {}
    for name in options.only or QUESTIONS:
        print(name, file=sys.stderr)
        try:
            rows += QUESTIONS[name](settings)
        except BrokenError as error:
            broken[name] = str(error)
            rows += error.rows
            print(f"  broken: {error}", file=sys.stderr)
        # after each question: the next one may take long
        found = [row.reported() for row in rows]
        write_json(options.json, found, settings=asdict(settings), broken=broken)
    print(table(rows))
    print(f"\n{machine()}; {settings.num_rounds} rounds.")
    if options.quick:
        print("\nA smoke test: the numbers mean nothing.")
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="What the orchestrator costs, beside its peers, taking turns."
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=QUESTIONS,
        help="one question; can be given several times",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="turns of every side (default 5)")
    parser.add_argument("--quick", action="store_true", help="a tiny smoke test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds there")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

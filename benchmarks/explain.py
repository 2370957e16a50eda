"""Whether `analysis explain` finds what is injected: on simulated trials with known truth, and on
real CPU devices.

`python benchmarks/explain.py [--seed S] [--seeds N] [--cases N] [--real FOLDER]` prints Markdown
tables. `--real` runs sweeps of a few minutes into a database in that folder, which is kept and
continued.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies a `store.py`

from analysis.explanation.suspects import Bound
from analysis.explanation.verdicts import Confidence
from benchmarks.explaining import real
from benchmarks.explaining.played import played
from benchmarks.explaining.simulated import CLEAR, EVERY, KINDS, Answer, answers


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    seeds = range(options.seed, options.seed + options.seeds)
    for drawn, selection in {
        "Causes that are clear": CLEAR,
        "Every cause from 10 % on": EVERY,
    }.items():
        for thinned in (False, True):
            found = [
                one
                for seed in seeds
                for one in answers(seed, options.cases, thinned=thinned, selection=selection)
            ]
            ablations = (
                "ablations missing and single repeats" if thinned else "every ablation, 3 repeats"
            )
            print(f"{drawn}; {ablations}; seeds {seeds[0]} to {seeds[-1]}:\n")
            print(table(found))
            print()
    with tempfile.TemporaryDirectory() as folder:
        found = played(options.seed, options.cases // 3, Path(folder))
    print(
        "Causes that are clear; every ablation, 3 repeats; through processes, run folders and a "
        f"database; seed {options.seed}:\n"
    )
    print(table(found))
    print()
    if options.real:
        print(real.table(options.real))
    return 0


def table(found: Sequence[Answer]) -> str:
    """A line per kind of cause, and all together."""
    lines = [
        (
            "| injected | wanted | trials | right | of these sure | cannot tell | wrong | sure "
            "and wrong | taken for |"
        )
    ]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|---|")
    for name in KINDS:
        lines.append(_line(name, KINDS[name].bound, [one for one in found if one.kind == name]))
    lines.append(_line("all", None, found))
    return "\n".join(lines)


def _line(name: str, bound: Bound | None, found: Sequence[Answer]) -> str:
    right = [one for one in found if one.is_right]
    wrong = [one for one in found if one.bound is not None and not one.is_right]
    taken = Counter(str(one.bound) for one in wrong)
    cells = [
        name,
        str(bound or ""),
        str(len(found)),
        f"{len(right)} ({len(right) / max(1, len(found)):.1%})",
        str(sum(one.confidence is Confidence.SURE for one in right)),
        str(sum(one.bound is None for one in found)),
        str(len(wrong)),
        str(sum(one.confidence is Confidence.SURE for one in wrong)),
        ", ".join(f"{other} {count}" for other, count in taken.most_common()),
    ]
    return f"| {' | '.join(cells)} |"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many, from --seed on")
    parser.add_argument("--cases", type=int, default=300, help="simulated ones, of each seed")
    parser.add_argument(
        "--real", type=Path, metavar="FOLDER", help="also run sweeps on CPU devices"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Measures whether `explain` finds what is injected: on simulated trials with known truth.

`python -m benchmarks.explain [--seed S] [--seeds N] [--cases N]` prints Markdown tables.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies a `store.py`

from analysis.explain.causes import Bound
from analysis.explain.verdicts import Confidence
from benchmarks.asking import parser
from benchmarks.explaining import mixed
from benchmarks.explaining.played import played
from benchmarks.explaining.simulated import CLEAR, EVERY, KINDS, Answer, answers

_ABLATIONS = {
    False: "every ablation, 3 repeats",
    True: "ablations missing and single repeats",
}
"""By whether they are thinned."""


def main(arguments: Sequence[str]) -> int:
    asked = parser(__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--seeds", type=int, default=1, help="so many, from --seed on")
    asked.add_argument("--cases", type=int, default=300, help="simulated ones, of each seed")
    asked.add_argument("--mixed", type=int, default=3000, help="simulated ones of several causes")
    options = asked.parse_args(arguments)
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
            print(f"{drawn}; {_ABLATIONS[thinned]}; seeds {seeds[0]} to {seeds[-1]}:\n")
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
    print("Up to three causes at once, as they are drawn:\n")
    print(mixed_table(options.seed, options.mixed))
    print()
    return 0


def table(found: Sequence[Answer]) -> str:
    """A line per kind of cause, and all together."""
    lines = [
        (
            "| injected | wanted | trials | right | of these sure | cannot tell | wrong | sure "
            "and wrong | taken for | right with what is named as missing |"
        )
    ]
    lines.append("|---|---|---:|---:|---:|---:|---:|---:|---|---:|")
    for name in KINDS:
        lines.append(_line(name, KINDS[name].bound, [one for one in found if one.kind == name]))
    lines.append(_line("all", None, found))
    return "\n".join(lines)


def mixed_table(seed: int, num_cases: int) -> str:
    """A line per confidence, with all ablations and with some of them missing."""
    lines = [
        "| ablations | confidence | trials | wrong | wrong by more than 2 % of the step |",
        "|---|---|---:|---:|---:|",
    ]
    for thinned in (False, True):
        found = list(mixed.verdicts(seed, num_cases, thinned=thinned))
        for confidence in Confidence:
            wrong_by = [one.wrong_by for one in found if one.confidence is confidence]
            counts = (len(wrong_by), _num_above(0.0, wrong_by), _num_above(0.02, wrong_by))
            cells = (_ABLATIONS[thinned], confidence, *counts)
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _num_above(limit: float, values: Sequence[float]) -> int:
    return sum(value > limit for value in values)


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
        str(sum(one.is_right or one.is_told for one in found)),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Counts verdicts with evidence, on every published figure of several GPUs and on boxes with a
planted cause, beside the rule that calls an efficiency below 0.90 communication-bound.

`python benchmarks/verdicts.py [--seed S] [--boxes N]` prints Markdown tables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies a `store.py`

from analysis.explain.causes import Bound
from benchmarks.asking import parser
from benchmarks.explaining.boxes import CAUSES, told
from benchmarks.explaining.figures_of_others import Said, figures, said_of_all

NUM_MODELS = (4, 5, 7, 10)


def main(arguments: Sequence[str]) -> int:
    asked = parser(__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--boxes", type=int, default=100, help="of each cause and size")
    options = asked.parse_args(arguments)
    said = said_of_all(figures())
    print(f"{len(said[0].bounds)} published figures of several GPUs, each asked:\n")
    print(published(said))
    print(
        f"\n{options.boxes} boxes of each kind, one process per trial; of trials below 0.90, which "
        "the rule calls communication-bound without exception:\n"
    )
    print(planted(options.boxes, options.seed))
    return 0


def published(said: Sequence[Said]) -> str:
    """Return a table with a column per rule."""
    lines = [
        f"| | {' | '.join(one.rule for one in said)} |",
        f"|---|{'---:|' * len(said)}",
    ]
    for bound in (*Bound, None):
        counts = [str(one.bounds.count(bound)) for one in said]
        lines.append(f"| {bound or 'cannot tell'} | {' | '.join(counts)} |")
    counted = {
        "sure": [one.num_sure for one in said],
        "verdicts without evidence": [one.num_without_evidence for one in said],
        "called communication-bound, and contradicted": [one.num_contradicted for one in said],
    }
    for what, counts_of in counted.items():
        lines.append(f"| {what} | {' | '.join(map(str, counts_of))} |")
    return "\n".join(lines)


def planted(num_boxes: int, seed: int) -> str:
    """Return a table with a line per cause and number of models and batches."""
    columns = ("trials", f"{Bound.COMMUNICATION}", "cannot tell", "else")
    lines = [f"| the loss is | models and batches | {' | '.join(columns)} |"]
    lines.append(f"|---|---:|{'---:|' * len(columns)}")
    for cause in CAUSES:
        for num_models in NUM_MODELS:
            found = told(cause, num_models, num_boxes, seed)
            counts = (found.num_communication, found.num_unknown, found.num_elsewise)
            shares = " | ".join(f"{count / max(1, found.num):.1%}" for count in counts)
            lines.append(f"| {cause} | {num_models} | {found.num} | {shares} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

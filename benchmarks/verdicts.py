"""Counts verdicts on every published figure of several GPUs, beside the rule that calls an
efficiency below 0.90 communication-bound.

`python -m benchmarks.verdicts` prints a Markdown table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies a `store.py`

from analysis.explain.causes import Bound
from benchmarks.asking import parser
from benchmarks.explaining.figures_of_others import Said, figures, said_of_all


def main(arguments: Sequence[str]) -> int:
    parser(__doc__).parse_args(arguments)
    said = said_of_all(figures())
    print(f"{len(said[0].bounds)} published figures of several GPUs, each asked:\n")
    print(published(said))
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
        "called communication-bound, and contradicted": [one.num_contradicted for one in said],
    }
    for what, counts_of in counted.items():
        lines.append(f"| {what} | {' | '.join(map(str, counts_of))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

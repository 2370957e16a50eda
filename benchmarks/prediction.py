"""Is a prediction right? Every published figure on more than 4 GPUs, from the same source's figures
on 1 to 4.

    python -m benchmarks.prediction [--db results.db] [--halves]

`--halves` also chooses what the physics leaves out (`analysis.calibration.priors.LeftOut`) by one
half of the sources, and tells how the other half fares with it.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from analysis.calibration.priors import LEFT_OUT, LeftOut
from benchmarks.predicting import (
    Checked,
    Pair,
    checked,
    judged,
    pairs,
    rested,
    summary,
    summary_of,
)
from store.database import open_existing
from store.reading.queries import known_references


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", help="of its references; else those that come with scalemark")
    parser.add_argument("--halves", action="store_true")
    asked = parser.parse_args()
    references = known_references(open_existing(asked.db) if asked.db else None)
    found = checked(references)
    print(rows_table(found))
    print()
    print(summaries(found))
    print("\nFigures that nothing was fitted to, by the profile and the physics alone:\n")
    print(judged_table(judged(references)))
    print("\nAs if nothing were reported of the boxes, not even their GPUs' names:\n")
    print(summaries(checked(references, as_unknown=True)))
    print()
    for title, rests in (
        ("Pairs that rest on rows of 1 to 4 GPUs:", True),
        ("Pairs by the physics and the profile alone:", False),
    ):
        print(f"{title}\n")
        print(pairs_table([pair for pair in pairs(found) if pair.rests is rests]))
        print()
    if asked.halves:
        print()
        print(halves(references))


def rows_table(found: Sequence[Checked]) -> str:
    """Each row, in Markdown."""
    lines = [
        "| source | hardware | model | batch | data | precision | way | GPUs | published "
        "| predicted | 95 % | error | inside | said |",
        "|---|---|---|---:|---|---|---|---:|---:|---:|---|---:|---|---|",
    ]
    for one in found:
        work = one.row.work
        reported = [
            one.source,
            one.hardware,
            work.network.name,
            work.batch_size,
            "real" if work.real_data else "synthetic",
        ]
        reported += [
            work.precision + ("+XLA" if work.xla else ""),
            _way(one),
            work.num_gpus,
            f"{one.row.throughput:.0f}",
        ]
        if one.predictive is None:
            reported += ["", "", "", "", f"refused: {one.refused}"]
        else:
            between = f"{one.predictive.low:.0f}..{one.predictive.high:.0f}"
            said = (
                "; ".join(one.predictive.uncertain)
                if one.num_rows
                else "no row to rest on: physics alone"
            )
            reported += [
                f"{one.predictive.throughput:.0f}",
                between,
                f"{one.error:+.1%}",
                "yes" if one.is_inside else "no",
                said,
            ]
        lines.append(f"| {' | '.join(map(str, reported))} |")
    return "\n".join(lines)


def judged_table(found: Sequence[Checked]) -> str:
    """Each figure, and all together."""
    lines = [
        "| hardware | precision | tokens | batch | accumulation | GPUs | published | predicted "
        "| 95 % | error | inside |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|---:|---|",
    ]
    for one in found:
        work = one.row.work
        told: list[object] = [one.hardware, work.precision + ("+XLA" if work.xla else "")]
        told += [work.network.seq_len, work.batch_size, work.gradient_accumulation, work.num_gpus]
        assert one.predictive is not None
        told += [f"{one.row.throughput:.4g}", f"{one.predictive.throughput:.4g}"]
        told.append(f"{one.predictive.low:.4g}..{one.predictive.high:.4g}")
        told += [f"{one.error:+.0%}", "yes" if one.is_inside else "no"]
        lines.append(f"| {' | '.join(map(str, told))} |")
    of_all = summary_of(found)
    return "\n".join(
        [
            *lines,
            "",
            f"{of_all.num} predicted, median error {of_all.median_error:.1%}, bias "
            f"{of_all.bias:+.1%}, inside 95 %: {of_all.share_inside:.0%}",
        ]
    )


def summaries(found: Sequence[Checked]) -> str:
    """The figures that must hold, for 8 GPUs; and for all. The bias is the median error with its
    sign: above 0 is too fast.
    """
    eight = [one for one in found if one.row.work.num_gpus == 8]
    lines = [
        (
            "| rows | predicted | median error | bias | over 25 % | of these not flagged | "
            "flagged | inside 95 % |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    groups = {
        "8 GPUs": eight,
        "other than 8": [one for one in found if one not in eight],
        "all over 4": found,
        "of these, rings": [one for one in found if one.row.strategy[2] == "nccl"],
        "of these, parameter servers": [
            one for one in found if one.row.strategy[0] == "parameter_server"
        ],
    }
    for name, of in groups.items():
        if rested(of):
            one = summary(of)
            reported = [
                one.num,
                f"{one.median_error:.1%}",
                f"{one.bias:+.1%}",
                one.num_far,
                one.num_far_unflagged,
                f"{one.share_uncertain:.0%}",
                f"{one.share_inside:.0%}",
            ]
            lines.append(f"| {name} | {' | '.join(map(str, reported))} |")
    return "\n".join(lines)


def pairs_table(found: Sequence[Pair]) -> str:
    """Which of two ways is faster."""
    lines = [
        "| model | GPUs | faster | slower | published | predicted | verdict |",
        "|---|---:|---|---|---:|---:|---|",
    ]
    for pair in found:
        assert pair.faster.predictive is not None
        assert pair.slower.predictive is not None
        published = (pair.faster.row.throughput or 0) / (pair.slower.row.throughput or 1)
        predicted = pair.faster.predictive.throughput / pair.slower.predictive.throughput
        reported = [
            pair.faster.row.work.network.name,
            pair.faster.row.work.num_gpus,
            _way(pair.faster),
            _way(pair.slower),
        ]
        verdict = "right" if pair.is_right else "wrong"
        lines.append(
            f"| {' | '.join(map(str, reported))} | {published:.3f} | {predicted:.3f} | {verdict} |"
        )
    right = sum(pair.is_right for pair in found)
    return "\n".join([*lines, "", f"{right} of {len(found)} pairs right"])


def _way(one: Checked) -> str:
    work = one.row.work
    reported = [
        *one.row.strategy,
        f"repacked {work.gradient_repacking}" if work.gradient_repacking else "",
        "compact" if work.compact_gradients else "",
    ]
    return " ".join(filter(None, reported))


def halves(references: Sequence[Mapping[str, Any]]) -> str:
    """Chosen by one half of the sources, told of the other."""
    sides = [
        [one for one in references if _half(one["source"] + one["hardware"]) == side]
        for side in (0, 1)
    ]
    lines = [
        (
            "| chosen by | walk | overhead | predicted of the other half | median error | not "
            "flagged over 25 % | inside 95 % |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for side in (0, 1):
        best = min(_CHOICES, key=lambda one: _badness(checked(sides[side], one)))
        other = summary(checked(sides[1 - side], best))
        reported = [
            f"half {side}",
            best.walk,
            best.overhead,
            other.num,
            f"{other.median_error:.1%}",
            other.num_far_unflagged,
            f"{other.share_inside:.0%}",
        ]
        lines.append(f"| {' | '.join(map(str, reported))} |")
    return "\n".join(lines)


_CHOICES = [
    LeftOut(noise=LEFT_OUT.noise, walk=walk, shared_walk=walk * 0.6, overhead=overhead)
    for walk, overhead in product((0.01, 0.02, 0.04), (0.1, 0.25, 0.5))
]


def _badness(found: Sequence[Checked]) -> float:
    """Distance of the intervals' coverage from 95 %, then the error."""
    reported = summary(found)
    return 10 * abs(reported.share_inside - 0.95) + reported.median_error


def _half(environment: str) -> int:
    return hashlib.sha256(environment.encode()).digest()[0] % 2


if __name__ == "__main__":
    main()

"""Is a prediction right? Every published figure on more than 4 GPUs, from the same source's figures
on 1 to 4.

    python -m benchmarks.prediction [--db results.db] [--halves] [--constants] [--sensitivity]

`--constants` fits `TYPICAL` of `analysis.calibration.weights` and `QUANTILES` of
`analysis.calibration.intervals` to all figures, and prints them.

`--halves` also chooses what the physics leaves out (`analysis.calibration.priors.LeftOut`) by one
half of the sources, and tells how the other half fares with it. `--sensitivity` halves and doubles
each constant that was set by hand, or by profiles of one GPU.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

from analysis.calibration import doubts, weights
from analysis.calibration.efficiency import Efficiency
from analysis.calibration.layout import precision_class
from analysis.calibration.priors import LEFT_OUT, LeftOut
from benchmarks import one_gpu
from benchmarks.beside_rules import beside_rules, is_on, nearer_rules
from benchmarks.fit_efficiency import figures, fit
from benchmarks.predicting import (
    Checked,
    Pair,
    References,
    calibrated,
    checked,
    constants,
    judged,
    pairs,
    summary,
    summary_of,
    without_rows,
)
from benchmarks.sources import further, sources
from costs import beside_products, step
from store.database import open_existing
from store.reading.queries import known_references


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", help="of its references; else those that come with scalemark")
    parser.add_argument("--halves", action="store_true")
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--sensitivity", action="store_true")
    asked = parser.parse_args()
    references = [*known_references(open_existing(asked.db) if asked.db else None), *further()]
    known, guessed = _by_few(references)
    every = _of_all(known, guessed)
    if asked.constants:
        print(*constants(every), sep="\n")
        return
    known, guessed = (
        {few: calibrated(of, every) for few, of in found.items()} for found in (known, guessed)
    )
    print(rows_table(known[4]))
    print("\nOf boxes as they are reported:\n")
    print(beside_rules(known))
    print("\nWhere a rule is nearer:\n")
    print(nearer_rules(known))
    print("\nAs if nothing were known of the boxes, not even their GPUs' names:\n")
    print(beside_rules(guessed))
    print("\nWhere a rule is nearer:\n")
    print(nearer_rules(guessed))
    print("\nFigures that are kept to judge, by the profile and the physics alone:\n")
    print(judged_table(judged(references)))
    print("\nWithout rows, by precision and GPU:\n")
    print(precisions(_without_rows(references, lambda source: source)))
    print("\nWithout rows, and without any figure of the same publisher:\n")
    print(precisions(_without_rows(references, lambda source: sources()[source].publisher)))
    print()
    for title, rests in (
        ("Pairs that rest on rows of 1 to 4 GPUs:", True),
        ("Pairs by the physics and the profile alone:", False),
    ):
        print(f"{title}\n")
        print(pairs_table([pair for pair in pairs(known[4]) if pair.rests is rests]))
        print()
    if asked.halves:
        print()
        print(halves(references))
    if asked.sensitivity:
        print()
        print(sensitivity(references))


def _without_rows(references: References, group: Callable[[str], str]) -> list[Checked]:
    """Predict each source's figures by efficiencies of the sources of all other groups."""
    known = figures(references)

    @cache
    def fitted_without(left_out: str) -> Efficiency:
        return fit([one for one in known if group(one.source) != left_out])[0]

    def without(source: str) -> Efficiency:
        return replace(fitted_without(group(source)), software=sources()[source].software)

    return without_rows(references, without)


def _by_few(
    references: References,
) -> tuple[dict[int, list[Checked]], dict[int, list[Checked]]]:
    """Predict from up to 1, 2 and 4 GPUs, of boxes as they are reported and as if nothing were
    known of them.
    """
    known, guessed = (
        {few: checked(references, as_unknown=unknown, few=few) for few in (1, 2, 4)}
        for unknown in (False, True)
    )
    return known, guessed


def _of_all(*found: Mapping[int, Sequence[Checked]]) -> list[Checked]:
    return [one for by_few in found for of in by_few.values() for one in of]


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
        cells: list[object] = [one.hardware, work.precision + ("+XLA" if work.xla else "")]
        cells += [work.network.seq_len, work.batch_size, work.gradient_accumulation, work.num_gpus]
        assert one.predictive is not None
        cells += [f"{one.row.throughput:.4g}", f"{one.predictive.throughput:.4g}"]
        cells.append(f"{one.predictive.low:.4g}..{one.predictive.high:.4g}")
        cells += [f"{one.error:+.0%}", "yes" if one.is_inside else "no"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    of_all = summary_of(found)
    return "\n".join(
        [
            *lines,
            "",
            f"{of_all.num} predicted, median error {of_all.median_error:.1%}, bias "
            f"{of_all.bias:+.1%}, inside 95 %: {of_all.share_inside:.0%}",
        ]
    )


def precisions(found: Sequence[Checked]) -> str:
    """Sum up predictions without rows, by precision, and by precision and GPU."""
    lines = [
        "| precision | GPU | figures | sources | median | p90 | bias | over 25 % | half-width "
        "| inside 95 % |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    grouped: dict[tuple[str, str], list[Checked]] = defaultdict(list)
    for one in found:
        precision = precision_class(one.row)
        grouped["all", ""].append(one)
        grouped[precision, ""].append(one)
        grouped[precision, one.gpu].append(one)
    for (precision, gpu), of in sorted(grouped.items()):
        one = summary_of(of)
        cells: list[object] = [precision, gpu, one.num, len({each.source for each in of})]
        cells += [f"{one.median_error:.0%}", f"{one.p90_error:.0%}", f"{one.bias:+.0%}"]
        cells += [one.num_far, f"{one.half_width:.0%}", f"{one.share_inside:.0%}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
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


def sensitivity(references: References) -> str:
    """Tell what constants that were set by hand decide, on 8 GPUs from up to 4 and, without any
    row, on one H200: each halved and doubled.
    """
    lines = [
        "| constant | value | halved | doubled | one H200, halved | doubled |",
        "|---|---:|---|---|---|---|",
        f"| as they are | | {_eight(references)} | | {one_gpu.summary()} | |",
    ]
    for module, name in _BY_HAND:
        value = getattr(module, name)
        cells, of_h200 = [], []
        for changed in (value / 2, value * 2):
            setattr(module, name, changed)
            cells.append(_eight(references))
            of_h200.append(one_gpu.summary())
        setattr(module, name, value)
        lines.append(f"| `{name}` | {value:g} | {' | '.join(cells + of_h200)} |")
    return "\n".join(lines)


def _eight(references: References) -> str:
    one = summary([one for one in checked(references) if is_on(one, 8)])
    return (
        f"{one.median_error:.1%} / {one.p90_error:.1%}, {one.share_inside:.0%} inside, "
        f"{one.share_uncertain:.0%} flagged, {one.num_far_unflagged} not"
    )


_BY_HAND = [
    *((step, name) for name in ("_TENSOR_KERNELS", "_COMPILED_TENSOR_KERNELS", "_CALL_S")),
    *((step, name) for name in ("_LAUNCH_CONTENTION", "_COPIES_AT_ONCE", "_STOLEN", "_ISSUED")),
    *((step, name) for name in ("_SUM_PASSES", "_UNDISTORTED")),
    *((doubts, name) for name in ("_VISIBLE", "_WRONG_BY", "_HOST_WRONG_BY", "_GUESSED_WRONG_BY")),
    *((doubts, name) for name in ("_SATURATION_ERROR", "_CONTRADICTS", "_BIASES_WRONG_BY")),
    *((beside_products, name) for name in ("_PER_CLOCK", "_ADD_S", "_MOST_BLOCKS")),
    *((beside_products, name) for name in ("_CHANNEL_BYTES_PER_S", "_TRANSPOSES")),
    *((weights, name) for name in ("_OTHER", "_LARGEST")),
]
"""Constants with neither a source nor a fit; those of `beside_products` are of profiles of one H200
alone."""

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

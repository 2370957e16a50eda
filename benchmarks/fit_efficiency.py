"""Fit how much of a GPU's peak convolutions reach to published figures, and write it to a file.

    python -m benchmarks.fit_efficiency

The figures are those of `store/published/`, but for the ones kept to judge predictions, and of
`further_throughput.csv`; `sources.csv` says what software each source used. Factors are normal
around none at all, so that those of few figures stay small; figures of one source, and of one of
its curves, err together. The most probable factors come from Gauss and Newton's least squares.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

import analysis.calibration
from analysis.calibration.efficiency import PRODUCTS, Efficiency, Software, Term, terms
from analysis.calibration.layout import MEMORY, Floats, Layout, precision_class
from analysis.calibration.row import Row
from benchmarks.predicting import References, known_boxes
from benchmarks.sources import further, sources
from costs.hardware import Hardware
from costs.networks import network
from costs.step import TENSOR_CORES, Step, has_tensor_cores
from store.reading.queries import known_references

SPREADS = {
    "base": 0.5,
    "generation": 0.4,
    "precision": 0.2,
    "generation and precision": 0.15,
    "XLA": 0.15,
    "model": 0.15,
    "framework": 0.15,
    "framework and precision": 0.15,
    "years": 0.075,
    "start": 0.8,
}
"""Standard deviations of the logs before any figure. Their evidence was compared with that of
halves and doubles, and of models with fewer and more kinds of factors."""

_NOISE, _OF_CURVE, _OF_SOURCE = 0.04, 0.08, 0.1  # standard deviations of logs, by the evidence
_EXPOSED_WRONG_BY = 0.5  # of communication: a step full of it says little of computing
_BY_INPUT = 0.6  # of a step: from here on input, and not computing, may set its time
_INPUT_NOISE = 1.0
_ROUNDS = 5
_START: Term = ("start", "")
_BEFORE = Efficiency(logs={("base", ""): np.log(PRODUCTS), _START: np.log(2.0)})
"""The expectation before any figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A published figure of a network of convolutions, with the parts of its step."""

    source: str
    row: Row
    hardware: Hardware
    terms: dict[Term, float]
    flops_s: float  # at the whole peak
    start_s: float  # of one launch for each kernel
    rest_s: float  # of the step: what efficiency does not change
    exposed: float  # share of the step: the part of rest_s that GPUs do not compute
    is_by_input: bool

    @property
    def curve(self) -> tuple[object, ...]:
        """Return what it shares with figures that differ in batch and GPUs alone."""
        return self.source, self.hardware.gpu, self.row.work.network, precision_class(self.row)


def figures(references: References) -> list[Figure]:
    """Take apart the steps of all figures of boxes that a profile describes."""
    used = sources()
    found = []
    for source, _, known in known_boxes(references):
        for row in known.rows:
            found.append(_figure(source, row, known.guess.hardware, used[source].software))
    return found


def _figure(source: str, row: Row, hardware: Hardware, used: Software) -> Figure:
    step = Step.of(row.work, hardware)
    layout = Layout.of([row], is_known=True, efficiency=_BEFORE)
    rates = layout.rates(row, hardware)(layout.start)
    seconds = step.seconds(rates)
    computed_s = step.flops_s + (step.beside.traffic_s + step.weights_s) / MEMORY
    own_s = computed_s / rates.compute + rates.start * step.kernels_s
    rest_s = float(seconds.busy_s - own_s)
    besides_s = step.beside.seconds(rates.memory) - step.beside.traffic_s / rates.memory
    return Figure(
        source=source,
        row=row,
        hardware=hardware,
        terms=terms(row.work, hardware, used),
        flops_s=computed_s,
        start_s=step.kernels_s,
        rest_s=rest_s,
        exposed=(rest_s - float(besides_s)) / float(seconds.step_s),
        is_by_input=float(seconds.input_s / seconds.step_s) > _BY_INPUT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A fitted factor, as `efficiency.csv` has it."""

    of: str
    value: str
    log: float
    spread: float  # standard deviation of the log, after the figures
    figures: int
    sources: str


def fit(found: Sequence[Figure]) -> tuple[Efficiency, list[Factor]]:
    """Return the most probable factors of figures, and how sure they are."""
    keys = [*sorted({term for one in found for term in one.terms}), _START]
    places = {key: index for index, key in enumerate(keys)}
    shares = np.zeros((len(found), len(keys)))
    for index, one in enumerate(found):
        for term, num in one.terms.items():
            shares[index, places[term]] = num
    logs, covariance = _most_probable(found, keys, shares)
    factors = []
    for index, key in enumerate(keys):
        of = found if key == _START else [one for one in found if one.terms.get(key)]
        sources = sorted({one.source for one in of})
        factors.append(
            Factor(
                of=key[0],
                value=key[1],
                log=round(float(logs[index]), 4),
                spread=round(float(np.sqrt(covariance[index, index])), 4),
                figures=len(of),
                sources="; ".join(sources),
            )
        )
    return Efficiency(logs={(one.of, one.value): one.log for one in factors}), factors


def _most_probable(
    found: Sequence[Figure], keys: Sequence[Term], shares: Floats
) -> tuple[Floats, Floats]:
    before = np.array([_BEFORE.logs.get(key, 0.0) for key in keys])
    precision = np.diag([SPREADS[key[0]] ** -2 for key in keys])
    start = keys.index(_START)
    of_start = np.zeros_like(shares)
    of_start[:, start] = 1.0
    flops, starts, rest = (
        np.array([getattr(one, name) for one in found]) for name in ("flops_s", "start_s", "rest_s")
    )
    measured = np.log([one.row.step_s for one in found])
    logs = before.copy()
    for _ in range(_ROUNDS):
        computed_s, started_s = flops / np.exp(shares @ logs), starts * np.exp(of_start @ logs)
        step_s = computed_s + started_s + rest
        slopes = (started_s / step_s)[:, None] * of_start - (computed_s / step_s)[:, None] * shares
        inverse = np.linalg.inv(_errors(found, (computed_s + started_s) / step_s))
        wanted = measured - np.log(step_s) + slopes @ (logs - before)
        covariance = np.linalg.inv(slopes.T @ inverse @ slopes + precision)
        logs = before + covariance @ slopes.T @ inverse @ wanted
    return logs, covariance


def _errors(found: Sequence[Figure], computing: Floats) -> Floats:
    """Return the covariance of the figures' logs; `computing` is its share of each step."""
    own = [
        _NOISE**2 + (_EXPOSED_WRONG_BY * one.exposed) ** 2 + _INPUT_NOISE**2 * one.is_by_input
        for one in found
    ]
    sources = np.unique([one.source for one in found], return_inverse=True)[1]
    curves = list(dict.fromkeys(one.curve for one in found))
    of_curve = np.array([curves.index(one.curve) for one in found])
    together = _OF_SOURCE**2 * np.equal.outer(sources, sources)
    together = together + _OF_CURVE**2 * np.equal.outer(of_curve, of_curve)
    return np.diag(own) + np.outer(computing, computing) * together


def shares(found: Sequence[Figure], efficiency: Efficiency) -> str:
    """Tabulate the share of the peak by generation and precision, in Markdown, with how far sources
    lie from it: the standard deviation among the medians of each.
    """
    lines = [
        "| generation | precision | share | figures | sources | sources differ by |",
        "|---|---|---:|---:|---:|---:|",
    ]
    grouped: dict[str, list[Figure]] = defaultdict(list)
    for one in found:
        [both] = [value for of, value in one.terms if of == "generation and precision"]
        grouped[both].append(one)
    for both, of in sorted(grouped.items()):
        first = of[0]
        work = replace(first.row.work, network=network(_TYPICAL), xla=False)
        share = efficiency.share(work, first.hardware)
        if has_tensor_cores(first.hardware, work.precision):
            share *= TENSOR_CORES
        by_source: dict[str, list[float]] = defaultdict(list)
        for one in of:
            if not one.is_by_input:
                by_source[one.source].append(_miss(one, efficiency))
        medians = [float(np.median(misses)) for misses in by_source.values()]
        apart = f"{np.std(medians, ddof=1):.0%}" if len(medians) > 1 else ""
        cells = [*both.split(), f"{share:.0%}", len(of), len(medians), apart]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


_TYPICAL = "resnet50"  # the model of most figures


def _miss(one: Figure, efficiency: Efficiency) -> float:
    """Return the log of its measured step time over the fitted one."""
    log_share = sum(efficiency.logs[term] * num for term, num in one.terms.items())
    own_s = one.flops_s / np.exp(log_share) + one.start_s * efficiency.start
    return float(np.log(one.row.step_s / (own_s + one.rest_s)))


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = figures([*known_references(None), *further()])
    efficiency, factors = fit(found)
    path = Path(analysis.calibration.__file__).parent / "efficiency.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        names = [field.name for field in fields(Factor)]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(one) for one in factors)
    print(f"{path}: {len(factors)} factors\n\n{shares(found, efficiency)}")


if __name__ == "__main__":
    main()

"""One-line rules that carry a curve on to more GPUs, from its own rows alone.

t(n) is the time of one item on one GPU, n / throughput: constant where scaling is perfect.

| rule | t(n) | source |
|---|---|---|
| linear | t(most) | none: each GPU more brings as much as those before |
| ring | a + b 2 (n-1)/n | bytes of a ring all-reduce (Patarasu and Yuan 2009) |
| doubling | a b^log2(n) | none: each doubling of the GPUs loses the same share |
| amdahl | a + b (n-1) | Amdahl 1967: a share of the work is serial |
| usl | a + b (n-1) + c n (n-1) | Gunther 1993: and each pair of GPUs costs |
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.calibration.layout import Floats
from analysis.calibration.row import Row

LINEAR, RING, DOUBLING, AMDAHL, USL = "linear", "ring", "doubling", "amdahl", "usl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One way to carry a curve on."""

    # logs (C,) of t on as many counts (C,) of GPUs -> log of t on another count
    log_time: Callable[[Floats, Floats, float], float]
    least_counts: int  # of GPUs that its parameters need


def log_times(target: Row, rows: Sequence[Row]) -> dict[int, float]:
    """Return the log of t by number of GPUs, of the rows that differ from the target in it alone.

    Rows of one count are averaged. Rows with other micro-batches, or of strong scaling with other
    batches, are no such rows.
    """
    found: dict[int, list[float]] = defaultdict(list)
    wanted = curve_of(target)
    for row in rows:
        if row.throughput is not None and curve_of(row) == wanted:
            num_gpus = row.work.num_gpus
            found[num_gpus].append(math.log(num_gpus / row.throughput))
    return {num_gpus: sum(logs) / len(logs) for num_gpus, logs in found.items()}


def curve_of(row: Row) -> tuple[object, ...]:
    """Return what rows have in common that differ in the number of GPUs alone."""
    return replace(row.work, num_gpus=1), row.item, row.apart


def carried(log_times: Mapping[int, float], num_gpus: int) -> dict[str, float]:
    """Return the log of t on `num_gpus` by each rule whose parameters the counts suffice for; none
    where the curve goes as far, or has one count alone.
    """
    if num_gpus <= max(log_times, default=num_gpus):
        return {}
    counts = sorted(log_times)
    known = np.array([log_times[count] for count in counts])
    found = {}
    for name, rule in RULES.items():
        if len(counts) >= rule.least_counts:
            found[name] = rule.log_time(np.array(counts, float), known, float(num_gpus))
    return found


def leverages(log_times: Mapping[int, float], num_gpus: int) -> dict[str, float]:
    """Return how many times the variance of one figure is in what each rule carries on.

    Each figure counts by the square of the slope with which the rule follows it: the linear rule
    follows the last alone (1), the ring from 1 and 2 GPUs to 8 both (0.75^2 + 1.75^2).
    """
    found: dict[str, float] = defaultdict(float)
    for count, log in log_times.items():
        more = carried({**log_times, count: log + _NUDGE}, num_gpus)
        less = carried({**log_times, count: log - _NUDGE}, num_gpus)
        for name in more:
            found[name] += ((more[name] - less[name]) / (2 * _NUDGE)) ** 2
    return dict(found)


def _linear(_counts: Floats, log_times: Floats, _num_gpus: float) -> float:
    return float(log_times[-1])


def _doubling(counts: Floats, log_times: Floats, num_gpus: float) -> float:
    slope, intercept = np.polyfit(np.log2(counts), log_times, 1)
    return float(intercept + slope * np.log2(num_gpus))


def _ring(counts: Floats, log_times: Floats, num_gpus: float) -> float:
    def shape(num: Floats) -> Floats:
        return np.column_stack([np.ones(len(num)), 2 * (num - 1) / num])

    return _relative(shape, counts, log_times, num_gpus)


def _amdahl(counts: Floats, log_times: Floats, num_gpus: float) -> float:
    def shape(num: Floats) -> Floats:
        return np.column_stack([np.ones(len(num)), num - 1])

    return _relative(shape, counts, log_times, num_gpus)


def _usl(counts: Floats, log_times: Floats, num_gpus: float) -> float:
    def shape(num: Floats) -> Floats:
        return np.column_stack([np.ones(len(num)), num - 1, num * (num - 1)])

    return _relative(shape, counts, log_times, num_gpus)


def _relative(
    shape: Callable[[Floats], Floats], counts: Floats, log_times: Floats, num_gpus: float
) -> float:
    """Fit t = shape @ x by least squares of relative errors; no part of t is below 0."""
    from scipy.optimize import nnls  # here, because its import takes longer than most commands do

    parts, _ = nnls(shape(counts) / np.exp(log_times)[:, None], np.ones(len(counts)))
    return float(np.log(shape(np.array([num_gpus]))[0] @ parts))


_NUDGE = 0.001  # of a log: a slope is taken over twice as much

RULES: dict[str, Rule] = {
    LINEAR: Rule(log_time=_linear, least_counts=2),
    RING: Rule(log_time=_ring, least_counts=2),
    DOUBLING: Rule(log_time=_doubling, least_counts=2),
    AMDAHL: Rule(log_time=_amdahl, least_counts=2),
    USL: Rule(log_time=_usl, least_counts=3),
}

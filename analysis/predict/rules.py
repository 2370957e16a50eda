"""Carry a curve of throughput on to more GPUs.

With throughput T on n GPUs, t(n) = n / T is the time of one item on one GPU: constant where scaling
is perfect. The rules see nothing but t, so that they hold for any program.

| rule | t(n) | meaning |
|---|---|---|
| linear | t(most) | no further loss |
| ring | a + b 2 (n-1)/n | the bytes of a ring all-reduce (Patarasu and Yuan 2009) |
| doubling | t(most) x loss^log2(n/most) | each doubling loses the same share |
| amdahl | a + b (n-1) | a share of the work is serial (Amdahl 1967) |

The prediction is the weighted median of the first three. A rule weighs by its errors on the largest
count of each curve of the same box, predicted from half of the GPUs or fewer (Bates and Granger
1969 combine forecasts so). Amdahl's law replaces them where slower links begin beyond the curve and
it has lost something already. All constants are fitted to published curves:
`python -m benchmarks.prediction` shows how far off the predictions are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Curve = Mapping[int, float]
"""Throughput by number of GPUs."""


class Basis(StrEnum):
    """What a prediction rests on."""

    CURVE = "curve"  # the rules
    SLOWER_LINKS = "slower links"  # Amdahl's law: GPUs beyond the curve are reached more slowly
    NO_GAIN = "no gain"  # the last GPUs of the curve added next to nothing
    ONE_COUNT = "one count"  # what published curves usually lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A curve's throughput on more GPUs than it has."""

    throughput: float
    low: float  # of the 95 % interval
    high: float
    basis: Basis
    rules: Mapping[str, float]  # throughput by each rule; empty with one count


def carry(
    curve: Curve, num_gpus: int, beside: Iterable[Curve] = (), fast_group: int | None = None
) -> Carried:
    """Predict the throughput on `num_gpus`, which is more than the curve has.

    `beside` are curves of the same box. `fast_group` is how many GPUs reach each other by the
    fastest links, where the curve's replicas exchange gradients over these; None where unknown.
    """
    counts = sorted(curve)
    most, doublings = counts[-1], math.log2(num_gpus / counts[-1])
    logs = {count: _log_time(curve, count) for count in counts}
    if len(counts) == 1:
        log = logs[most] + _USUAL_LOSS * doublings
        return _carried(num_gpus, log, _ONE_COUNT_WIDTH * doublings, Basis.ONE_COUNT)
    loss = max(0.0, logs[most] - logs[counts[0]])
    width = (_LEAST_WIDTH + _WIDTH_OF_LOSS * loss) * math.sqrt(doublings)
    candidates = _by_rules(logs, num_gpus)
    is_beyond = fast_group is not None and most <= fast_group < num_gpus
    if is_beyond:
        width += _BEYOND_WIDTH
    if _last_gain(curve) < _LEAST_GAIN:
        log = math.log(num_gpus / curve[most])
        return _carried(num_gpus, log, width + _NO_GAIN_WIDTH, Basis.NO_GAIN, candidates)
    if is_beyond and loss > _VISIBLE_LOSS:
        log = _fitted(_amdahl_shape, logs, num_gpus)
        candidates = {**candidates, "amdahl": log}
        return _carried(num_gpus, log, width, Basis.SLOWER_LINKS, candidates)
    log = _weighted_median(candidates, _weights([*beside]))
    return _carried(num_gpus, log, width, Basis.CURVE, candidates)


def _log_time(curve: Curve, count: int) -> float:
    return math.log(count / curve[count])


def _carried(
    num_gpus: int, log: float, width: float, basis: Basis, rules: Mapping[str, float] | None = None
) -> Carried:
    """Turn logs of times into throughput, with an interval of `width` to each side."""
    throughput = num_gpus / math.exp(log)
    return Carried(
        throughput=throughput,
        low=throughput * math.exp(-width),
        high=throughput * math.exp(width),
        basis=basis,
        rules={name: num_gpus / math.exp(rule) for name, rule in (rules or {}).items()},
    )


def _last_gain(curve: Curve) -> float:
    """Return what each of the last GPUs added, over what each of those before them had."""
    *_, before, most = sorted(curve)
    added = (curve[most] - curve[before]) / (most - before)
    return added / (curve[before] / before)


def _by_rules(logs: Mapping[int, float], num_gpus: int) -> dict[str, float]:
    """Return log t on `num_gpus` by each rule, from log t of two or more counts."""
    counts = sorted(logs)
    first, most = counts[0], counts[-1]
    per_doubling = (logs[most] - logs[first]) / math.log2(most / first)
    return {
        "linear": logs[most],
        "ring": _fitted(_ring_shape, logs, num_gpus),
        "doubling": logs[most] + per_doubling * math.log2(num_gpus / most),
    }


_Floats = NDArray[np.float64]


def _ring_shape(counts: _Floats) -> _Floats:
    return np.column_stack([np.ones(len(counts)), 2 * (counts - 1) / counts])


def _amdahl_shape(counts: _Floats) -> _Floats:
    return np.column_stack([np.ones(len(counts)), counts - 1])


def _fitted(shape: Callable[[_Floats], _Floats], logs: Mapping[int, float], num_gpus: int) -> float:
    """Fit t = shape @ (a, b) by least squares of relative errors, a and b not below 0."""
    counts = np.array(sorted(logs), float)
    columns = shape(counts) / np.exp([logs[int(count)] for count in counts])[:, None]
    parts, *_ = np.linalg.lstsq(columns, np.ones(len(counts)), rcond=None)
    if parts[1] < 0:
        parts = np.array([1 / (columns[:, 0] @ columns[:, 0] / columns[:, 0].sum()), 0.0])
    elif parts[0] < 0:
        parts = np.array([0.0, columns[:, 1].sum() / (columns[:, 1] @ columns[:, 1])])
    return float(np.log(shape(np.array([float(num_gpus)]))[0] @ parts))


def _weights(curves: Sequence[Curve]) -> dict[str, float]:
    """Return the weight of each rule by its usual error, and by its errors on these curves."""
    errors = [error for curve in curves if (error := _errors(curve))]
    weights = {}
    for name, usual in _USUAL_ERROR.items():
        missed = sum(min(_LARGEST_ERROR, abs(error[name])) ** 2 for error in errors)
        weights[name] = (1 + len(errors)) / (usual**2 + missed)
    return weights


def _errors(curve: Curve) -> dict[str, float]:
    """Return how far off each rule is on the curve's largest count, in logs; empty where too few
    counts have half of its GPUs or fewer.
    """
    most = max(curve)
    kept = {count: _log_time(curve, count) for count in curve if count <= most / 2}
    if len(kept) < 2:
        return {}
    reached = _log_time(curve, most)
    return {name: log - reached for name, log in _by_rules(kept, most).items()}


def _weighted_median(logs: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the middle of the candidates, between the two that it lies between."""
    names = sorted(logs, key=logs.__getitem__)
    shares = np.array([weights[name] for name in names])
    shares = shares / shares.sum()
    ranks = np.cumsum(shares) - shares / 2
    return float(np.interp(0.5, ranks, [logs[name] for name in names]))


# All of these are of logs of t, over published curves.
_USUAL_ERROR = {"linear": 0.04, "ring": 0.03, "doubling": 0.045}
_LARGEST_ERROR = 0.15  # that counts: one stray row shall not decide
_USUAL_LOSS = 0.03  # per doubling, of curves of which one count is known
_ONE_COUNT_WIDTH = 0.13  # to each side, per doubling
_LEAST_WIDTH = 0.05  # to each side
_WIDTH_OF_LOSS = 0.9  # times the loss of the curve so far
_BEYOND_WIDTH = 0.25  # more, where slower links begin: DGX-1 boxes of 2017 lost so much there
_NO_GAIN_WIDTH = 1.0  # more: nothing shows how far throughput may fall
_LEAST_GAIN = 0.25  # below it the last GPUs added next to nothing
_VISIBLE_LOSS = 0.05

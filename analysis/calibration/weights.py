"""Weighs the candidates of one prediction by their own variance and their record on the same box.

The variance of the physics is that of its interval. That of a rule is the noise of figures, as
often as the rule carries it on (`rules.leverages`), and what it usually misses on the boxes of
others, squared. The record of a candidate is how far off it was on the most GPUs of each curve,
left out and predicted from half of them or fewer; a curve of another strategy counts less. With e
its errors there, in logs,

    weight = (1 + number of curves) / (variance + sum of e^2)

as Bates and Granger (1969) combine forecasts: the variance counts as the error of one curve. An
error counts up to a limit, and what is predicted is the weighted median, so that neither one stray
row nor one stray candidate moves it far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.calibration.rules import AMDAHL, DOUBLING, LINEAR, RING, USL

PHYSICS = "physics"
CURVE, KNOWN_BOX, GUESSED_BOX = "curve", "one count, known box", "one count, guessed box"
"""Kinds of prediction: of a curve with several counts of GPUs, or with one, beside which only the
physics of its box stands.
"""

Typical = Mapping[str, Mapping[str, float]]
"""Standard deviation of the errors of candidates, in logs (`typical_errors`), by kind."""

TYPICAL: Typical = {
    CURVE: {
        LINEAR: 0.0399,
        RING: 0.0286,
        DOUBLING: 0.0441,
        AMDAHL: 0.105,
        USL: 0.0742,
    },
    KNOWN_BOX: {PHYSICS: 0.0391, LINEAR: 0.0791},
    GUESSED_BOX: {PHYSICS: 0.0769, LINEAR: 0.0928},
}
"""Fitted to all published figures, by `python -m benchmarks.prediction --constants`. There, figures
are judged by those of other publishers alone.
"""

_OTHER = 0.25  # that a curve of another strategy counts
_LARGEST = 0.15  # error, in logs, that counts
_NORMAL = 1.4826  # times the median of absolute errors: the standard deviation of normal ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The errors of the candidates on the largest count of one curve."""

    is_alike: bool  # of the strategy of the curve that is to be predicted
    errors: Mapping[str, float]  # in logs, by candidate


Record = Sequence[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The candidates of one prediction with their weights, which add up to 1."""

    logs: Mapping[str, float]  # of what each predicts
    weights: Mapping[str, float]

    @property
    def middle(self) -> float:
        """Return the weighted median, between the two candidates that it lies between."""
        names = sorted(self.weights, key=lambda name: self.logs[name])
        weights = np.array([self.weights[name] for name in names])
        ranks = np.cumsum(weights) - weights / 2
        return float(np.interp(0.5, ranks, [self.logs[name] for name in names]))

    @property
    def variance(self) -> float:
        """Return how far the candidates are apart."""
        middle = self.middle
        return sum(
            weight * (self.logs[name] - middle) ** 2 for name, weight in self.weights.items()
        )


def stacked(logs: Mapping[str, float], variances: Mapping[str, float], record: Record) -> Stack:
    """Weigh candidates by the variances that they have by themselves, and by their record."""
    shares = {}
    for name in logs:
        of = [entry for entry in record if name in entry.errors]
        counts = np.array([1.0 if entry.is_alike else _OTHER for entry in of])
        errors = np.array([min(_LARGEST, abs(entry.errors[name])) for entry in of])
        missed = variances[name] + float(counts @ np.square(errors))
        shares[name] = (1 + float(counts.sum())) / missed
    total = sum(shares.values())
    return Stack(logs=logs, weights={name: share / total for name, share in shares.items()})


def typical_errors(errors: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the typical error of each candidate, by those of all in each prediction, in logs."""
    found = {}
    for name in dict.fromkeys(name for one in errors for name in one):
        of = [min(_LARGEST, abs(one[name])) for one in errors if name in one]
        found[name] = round(_NORMAL * float(np.median(of)), 4)
    return found

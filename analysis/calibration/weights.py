"""Weighs the candidates of one prediction by their record on the same box.

The record of a candidate is how far off it was on the most GPUs of each curve, left out and
predicted from half of them or fewer. The curve's own entry counts as much as several of others.
With e its errors there, in logs, and s the noise of one figure,

    mean e^2 = (k typical^2 + sum of e^2) / (k + number of curves)
    weight   = 1 / (s^2 + mean e^2)

as Bates and Granger (1969) combine forecasts. `typical` is what a candidate usually misses, on the
boxes of others: it stands for k curves, so that one row does not decide. An error counts up to a
limit, and what is predicted is the weighted median, so that neither one stray row nor one stray
candidate moves it far.
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
"""Standard deviation of each candidate's errors, in logs (`typical_errors`), by kind."""

TYPICAL: Typical = {
    CURVE: {
        PHYSICS: 0.0308,
        LINEAR: 0.0399,
        RING: 0.0286,
        DOUBLING: 0.0441,
        AMDAHL: 0.105,
        USL: 0.0742,
    },
    KNOWN_BOX: {PHYSICS: 0.0398, LINEAR: 0.0791},
    GUESSED_BOX: {PHYSICS: 0.0763, LINEAR: 0.0928},
}
"""Of all published figures, by `python -m benchmarks.prediction --constants`. There, figures are
judged by those of other publishers alone.
"""

_CURVES = 2.0  # that typical errors stand for
_OWN_CURVE = 4.0  # counts as much as so many others
_LARGEST = 0.15  # error, in logs, that counts
_NORMAL = 1.4826  # times the median of absolute errors: the standard deviation of normal ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The errors of the candidates on the largest count of one curve."""

    is_own: bool  # of the curve that is to be predicted
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


def stacked(
    logs: Mapping[str, float],
    record: Record,
    noise: float,
    typical: Mapping[str, float] = TYPICAL[CURVE],
) -> Stack:
    """Weigh candidates by their record."""
    shares = {}
    for name in logs:
        of = [entry for entry in record if name in entry.errors]
        counts = np.array([_OWN_CURVE if entry.is_own else 1.0 for entry in of])
        errors = np.minimum(_LARGEST, np.abs([entry.errors[name] for entry in of]))
        # entries of unequal count are worth fewer of equal ones (Kish 1965)
        num = counts.sum() ** 2 / np.square(counts).sum() if of else 0.0
        seen = num * np.average(np.square(errors), weights=counts) if of else 0.0
        shares[name] = 1 / (noise**2 + (_CURVES * typical[name] ** 2 + seen) / (_CURVES + num))
    total = sum(shares.values())
    return Stack(logs=logs, weights={name: share / total for name, share in shares.items()})


def typical_errors(errors: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the typical error of each candidate, by those of all in each prediction, in logs."""
    found = {}
    for name in dict.fromkeys(name for one in errors for name in one):
        of = [min(_LARGEST, abs(one[name])) for one in errors if name in one]
        found[name] = round(_NORMAL * float(np.median(of)), 4)
    return found

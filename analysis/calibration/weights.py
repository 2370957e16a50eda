"""Weighs the candidates of one prediction by their record on the same box.

The record of a candidate is how far off it was when the most GPUs of the box were left out and
predicted from half of them. With e its errors there, in logs, and s the noise of one figure,

    weight = share / (s^2 + mean of e^2)

which is the combination of forecasts of Bates and Granger (1969). Shares hold before any record:
half for the physics, the other half in equal parts for the rules. Equal parts are no fit to any
row, and are hard to beat by a fitted combination (Smith and Wallis 2009, "A simple explanation of
the forecast combination puzzle").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.calibration.rules import LINEAR, RING

PHYSICS = "physics"
_SHARE_OF_PHYSICS = 0.5
# without a record there are these alone: they say that the links carry more GPUs as the transfer
# of a ring has it, or better; a first loss says nothing of what grows without end
_WITHOUT_RECORD = (PHYSICS, LINEAR, RING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The errors of each candidate on the left out counts of one box, one entry per curve."""

    errors: tuple[Mapping[str, float], ...] = ()  # in logs, by candidate

    def mean_square(self, name: str) -> float | None:
        """Return None of a candidate that was not there."""
        squares = [errors[name] ** 2 for errors in self.errors if name in errors]
        return float(np.mean(squares)) if squares else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The candidates of one prediction with their weights, which add up to 1."""

    logs: Mapping[str, float]  # of what each predicts
    weights: Mapping[str, float]

    @property
    def middle(self) -> float:
        return sum(weight * self.logs[name] for name, weight in self.weights.items())

    @property
    def variance(self) -> float:
        """Return how far the candidates are apart."""
        middle = self.middle
        return sum(
            weight * (self.logs[name] - middle) ** 2 for name, weight in self.weights.items()
        )


def stacked(logs: Mapping[str, float], record: Record, noise: float) -> Stack:
    """Weigh candidates, one of which is the physics, by their record."""
    squares = {name: record.mean_square(name) for name in logs}
    able = [name for name in logs if name in _WITHOUT_RECORD or squares[name] is not None]
    shares = _shares(able)
    for name in able:
        shares[name] /= noise**2 + (squares[name] or 0.0) if record.errors else 1.0
    total = sum(shares.values())
    return Stack(logs=logs, weights={name: share / total for name, share in shares.items()})


def _shares(names: Iterable[str]) -> dict[str, float]:
    rules = [name for name in names if name != PHYSICS]
    if not rules:
        return {PHYSICS: 1.0}
    of_one = (1 - _SHARE_OF_PHYSICS) / len(rules)
    return {PHYSICS: _SHARE_OF_PHYSICS} | dict.fromkeys(rules, of_one)

"""What may be said of a pair: the one rule for all who compare two results."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from scalemark.stats.welch import known_ratio_interval


class Relation(StrEnum):
    """Of a first side to a second."""

    MORE = "more"
    LESS = "less"
    # the 95 % interval of the ratio holds 1; of published figures, which have none, 2 % or less
    # apart
    TIE = "tie"
    UNKNOWN = "unknown"  # one of the two is one process alone


def relation(of_a: Sequence[float], of_b: Sequence[float]) -> Relation:
    """By the values of their processes alone."""
    return relation_by(*known_ratio_interval(of_a, of_b))


def relation_by(low: float | None, high: float | None) -> Relation:
    """By the interval over processes of A / B, None where a side is one process alone."""
    if low is None or high is None:
        return Relation.UNKNOWN
    return Relation.MORE if low > 1 else Relation.LESS if high < 1 else Relation.TIE

"""Dates a change of level within a few nights, with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.history.sums import Floats

_LIKELY = -math.log(1 - math.sqrt(0.95))  # of log likelihood: 95 % (Siegmund 1988)
_LEFT = 0.5  # of a change without its largest night, or that night is all there is


@dataclass(frozen=True, slots=True, kw_only=True)
class Date:
    """The first night of the new level, counted from the first that was looked at."""

    first: int  # the most likely one
    earliest: int  # 95 % interval
    latest: int


def dated(series: Floats, variances: Floats) -> Date | None:
    """Return when the level of a series (nights,) changed; None where that rests on one night."""
    likely = _log_likelihood(series, variances)
    first = int(np.argmax(likely)) + 1
    if len(series) - first < 2 or _is_by_one_night(series, first):
        return None
    inside = np.flatnonzero(likely >= likely.max() - _LIKELY) + 1
    return Date(first=first, earliest=int(inside[0]), latest=int(inside[-1]))


def _log_likelihood(series: Floats, variances: Floats) -> Floats:
    """Return how likely each first night of a new level is, from the second night on."""
    weight = 1 / variances
    before_weight, before = np.cumsum(weight)[:-1], np.cumsum(weight * series)[:-1]
    after_weight, after = weight.sum() - before_weight, (weight * series).sum() - before
    likely: Floats = (before**2 / before_weight + after**2 / after_weight) / 2
    return likely


def _is_by_one_night(series: Floats, first: int) -> bool:
    old, new = series[:first], series[first:]
    change = new.mean() - old.mean()
    rest = np.delete(new, np.argmax(np.sign(change) * new))
    return bool((rest.mean() - old.mean()) / change < _LEFT)

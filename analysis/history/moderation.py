"""Lets variances that are each known from few values borrow from one another."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, zeta

from analysis.history.sums import Floats

_FEWEST = 3  # variances, before their differences tell anything
_ROUNDS = 6  # of Newton's method, which converges from below


def moderated(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Draw variances (..., num) towards what each row has in common, and return with them the
    degrees of freedom (..., 1) that this adds to those (..., num) that each has of its own: those
    of all together where they differ no more than by chance, 0 where there are too few to tell
    (empirical Bayes: Smyth 2004, as limma does).

    Variances and freedom are above 0; freedom may have one column that is that of all.
    """
    if variances.shape[-1] < _FEWEST:
        return variances, np.zeros((*variances.shape[:-1], 1))
    half = freedom / 2
    logs = np.log(variances) - digamma(half) + np.log(half)
    excess = logs.var(axis=-1, ddof=1, keepdims=True)
    excess -= _trigamma(half).mean(axis=-1, keepdims=True)
    most = np.broadcast_to(freedom, variances.shape).sum(axis=-1, keepdims=True)
    is_more = excess > _trigamma(most / 2)
    added = np.where(is_more, 2 * _inverse_trigamma(np.where(is_more, excess, 1.0)), most)
    common = np.exp(logs.mean(axis=-1, keepdims=True) + digamma(added / 2) - np.log(added / 2))
    drawn: Floats = (added * common + freedom * variances) / (added + freedom)
    return drawn, added


def _trigamma(at: Floats) -> Floats:
    found: Floats = zeta(2, at)
    return found


def _inverse_trigamma(values: Floats) -> Floats:
    """Solve trigamma(x) = value for x above 0, by Newton's method on 1 / trigamma."""
    found = 0.5 + 1 / values
    for _ in range(_ROUNDS):
        now = _trigamma(found)
        found = found - now * (1 - now / values) / (2 * zeta(3, found))
    return found

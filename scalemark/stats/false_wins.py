"""Divides the false wins that a whole series of proposals may have among its proposals.

e-LOND (Xu and Ramdas, "Online multiple testing with e-values", AISTATS 2024): a proposal wins where
its e-value exceeds 1 / level, and its level is a share of what is allowed, times one more than the
wins before it. Then of all wins of the series at most that share is false, on average, however the
proposals depend on each other and however many follow: a series without end has this bound, too.
"""

from __future__ import annotations

HALF_SPENT_AFTER = 100
"""Proposals among which half of the error is divided: the first hundred have levels much alike, and
those of a thousand, with wins among them, do as well."""


def level_of(number: int, num_wins: int, allowed: float) -> float:
    """Return the level of a proposal; `number` counts from 1, `num_wins` are those known when it
    began, and `allowed` is the share of wins that may be false.
    """
    half = HALF_SPENT_AFTER
    share = half / ((number - 1 + half) * (number + half))  # of all numbers the sum is 1
    return min(1.0, allowed * share * (num_wins + 1))

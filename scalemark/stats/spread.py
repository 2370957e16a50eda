"""Estimates how far processes that run the same trial differ from each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

PRIOR_DEVIATION = 0.03
"""Standard deviation of the logarithm of images/s among processes, where nothing was repeated yet:
more than quiet machines have (0.5 to 3 %), so that after one repeat of each only a gap of 20 to 25
% decides between five contenders."""

# the prior counts as much as so many degrees of freedom: two cells of three repeats have more to
# say
PRIOR_FREEDOM = 3
MOST_FREEDOM = 20  # what others show counts for no more: strategies need not spread alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Sums over trials of squared distances of log throughput from each trial's mean, and of their
    degrees of freedom.
    """

    squares: float = 0.0
    freedom: int = 0

    def __post_init__(self) -> None:
        if self.squares < 0 or self.freedom < 0:
            raise ValueError(f"{self}: wanted 0 or more of each")

    @classmethod
    def of(cls, speeds: Sequence[float]) -> Spread:
        """Return the spread of the repeats of one trial."""
        if len(speeds) < 2:
            return cls()
        logs = [math.log(speed) for speed in speeds]
        mean = fmean(logs)
        return cls(squares=math.fsum((log - mean) ** 2 for log in logs), freedom=len(logs) - 1)

    @classmethod
    def sum(cls, spreads: Iterable[Spread]) -> Spread:
        found = list(spreads)
        return cls(
            squares=math.fsum(one.squares for one in found),
            freedom=sum(one.freedom for one in found),
        )

    def without(self, part: Spread) -> Spread:
        """Return the spread of the other trials; raises ValueError if `part` is more than it."""
        return Spread(
            squares=max(0.0, self.squares - part.squares), freedom=self.freedom - part.freedom
        )


def variance_of(
    own: Spread,
    others: Spread,
    *,
    prior_freedom: int = PRIOR_FREEDOM,
    most_freedom: int = MOST_FREEDOM,
) -> tuple[float, int]:
    """Return the variance of log throughput of one process, and its degrees of freedom.

    What was seen of its own trial is drawn towards what others show.
    A moderated variance (Smyth 2004, doi:10.2202/1544-6115.1027): alone, a t interval of two
    processes decides nothing. Without a prior and without others the own repeats speak alone.
    Raises ValueError where there are none of these either.
    """
    known = prior_freedom + others.freedom
    prior = (prior_freedom * PRIOR_DEVIATION**2 + others.squares) / known if known else 0.0
    weight = min(known, most_freedom)
    freedom = weight + own.freedom
    if not freedom:
        raise ValueError("the spread of processes is unknown: wanted repeats, or a prior")
    return (weight * prior + own.squares) / freedom, freedom

"""How far processes that run the same differ from each other: what is known of it before, and what
all others have shown.
"""

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
    """Sums over trials: each one's squared distances of log images/s from its own mean, and how
    many of them are free.
    """

    squares: float = 0.0
    freedom: int = 0

    def __post_init__(self) -> None:
        if self.squares < 0 or self.freedom < 0:
            raise ValueError(
                f"a spread of squares={self.squares} and freedom={self.freedom}: wanted 0 or "
                "more of each"
            )

    @classmethod
    def of(cls, speeds: Sequence[float]) -> Spread:
        """Of the repeats of one trial, in images/s."""
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
        """Return the spread of the other trials. Raises ValueError where `part` has more than the
        sum, as if counted twice.
        """
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
    """Of log images/s of one process, and its degrees of freedom: what was seen of these, drawn
    towards what others show.

    A moderated variance (Smyth 2004, doi:10.2202/1544-6115.1027): alone, a t interval of two
    processes decides nothing. Without a prior and without others the own repeats speak alone.
    Raises ValueError where there are none of these either.
    """
    known = prior_freedom + others.freedom
    prior = (prior_freedom * PRIOR_DEVIATION**2 + others.squares) / known if known else 0.0
    weight = min(known, most_freedom)
    freedom = weight + own.freedom
    if not freedom:
        raise ValueError("nothing tells how far processes differ: wanted repeats, or a prior")
    return (weight * prior + own.squares) / freedom, freedom

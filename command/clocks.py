"""Compares the time that a program says its steps took with the time between its lines.

```
  said      |3|       |3|       |3|         one step of many is timed, or no device is waited for:
  between   |===10===||===10===||===10===|  the lines count
  said      |1|1|1|======6======|1|1|       a time holds more than its steps, as an evaluation:
  between   |1|1|1|1|1|1|1|1|               parts cannot exceed the whole, and the lines count
  said      |1|1|1|1|      |1|1|1|1|        it evaluates or saves in between:
  between   |1|1|1|1|==6==||1|1|1|1|        what it says counts, and both are reported
```
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 0.1  # honest rates differ by less: they leave out what a program does between steps
LEAST_BETWEEN_S = 0.05  # between lines: the watcher stamps them to a few milliseconds
RESOLUTION_S = 0.1  # of sums of such times
_FEWEST = 4  # intervals by which pauses are distinguished from steps that took longer than they say


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The same steps by two clocks."""

    num_calls: int
    said_s: float
    between_s: float
    usual: float | None  # median of time between lines over time said; None: of too few

    @property
    def agree(self) -> bool:
        apart_s = abs(self.between_s - self.said_s)
        return apart_s <= max(TOLERANCE * self.said_s, RESOLUTION_S)

    @property
    def exceeds(self) -> bool:
        """Return whether more time is said than there was."""
        return not self.agree and self.said_s > (1 + TOLERANCE) * self.between_s

    @property
    def lines_count(self) -> bool:
        """Return whether it is not a few pauses by which both differ."""
        is_usual = self.usual is not None and abs(self.usual - 1) > TOLERANCE
        return self.exceeds or (is_usual and not self.agree)


def compared(durations_s: Sequence[float], arrivals_s: Sequence[float]) -> Compared | None:
    """Compare calls with the arrivals at their edges; None where all came at once."""
    first = 0
    while first < len(durations_s) and arrivals_s[first + 1] <= arrivals_s[first]:
        first += 1  # lines that came together: none tells when the first of them was done
    ratios: list[float] = []
    said_s, begin_s = 0.0, arrivals_s[first]
    for duration_s, end_s in zip(durations_s[first:], arrivals_s[first + 1 :], strict=True):
        said_s += duration_s
        if end_s - begin_s >= LEAST_BETWEEN_S and said_s > 0:
            ratios.append((end_s - begin_s) / said_s)
            said_s, begin_s = 0.0, end_s
    if not ratios:
        return None
    return Compared(
        num_calls=len(durations_s) - first,
        said_s=sum(durations_s[first:]),
        between_s=arrivals_s[-1] - arrivals_s[first],
        usual=statistics.median(ratios) if len(ratios) >= _FEWEST else None,
    )

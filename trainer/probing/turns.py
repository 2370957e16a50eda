"""Times an action of devices: the fastest of several turns, between which the clock is read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long one figure is measured."""

    turn_s: float  # of actions between two looks at the clock
    total_s: float  # of all turns


FULL = Effort(turn_s=0.05, total_s=0.5)
QUICK = Effort(turn_s=0.02, total_s=0.1)


def fastest_s(
    act: Callable[[], object],
    wait: Callable[[], None],
    effort: Effort,
    clock: Clock = time.perf_counter,
) -> float:
    """Return the seconds of one action in the fastest turn.

    What disturbs a turn makes it longer, never shorter: the fastest is what the hardware can do.
    """

    def turn(num_calls: int) -> float:
        wait()
        start_s = clock()
        for _ in range(num_calls):
            act()
        wait()
        return max(clock() - start_s, 1e-9)

    turn(1)  # libraries choose their ways, and memory is claimed
    num_calls = math.ceil(effort.turn_s / turn(1))
    turns_s = [turn(num_calls)]
    while sum(turns_s) < effort.total_s:
        turns_s.append(turn(num_calls))
    return min(turns_s) / num_calls

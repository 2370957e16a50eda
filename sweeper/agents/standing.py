"""Counts how far a shared sweep is, from when its controller began."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scalemark.records.outcomes import IN_FLIGHT, State

_OPEN = (State.PENDING, *IN_FLIGHT)


class Standing:
    """States of repeats: how many were in each first, and are `now`."""

    def __init__(self, first: Mapping[State, int]) -> None:
        self._first, self.now = Counter(first), Counter(first)
        # in the end: what has run, and a stop left to the next command
        self.left_after_an_attempt: Counter[State] = Counter()

    @property
    def settled(self) -> Counter[State]:
        changed = self.now - self._first
        return Counter({state: num for state, num in changed.items() if state not in _OPEN})

    @property
    def num_left(self) -> int:
        return sum(self.now[state] for state in _OPEN)

    @property
    def num_running(self) -> int:
        return self.now[State.RUNNING]

    @property
    def num_in_flight(self) -> int:
        return sum(self.now[state] for state in IN_FLIGHT)

    @property
    def num_not_started(self) -> int:
        return self.num_left - self.num_running - self.left_after_an_attempt.total()

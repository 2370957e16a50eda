"""Keeps an estimate of when a sweep will be through, without spending more on it than it is
worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from sweeper.running.schedule import Running, Task

_SHARE_OF_A_CORE = 0.005  # what estimating may cost


class Eta:
    """`remaining_s` plays a sweep through: waiting tasks and running attempts -> seconds; `clock`
    counts seconds.
    """

    def __init__(
        self,
        remaining_s: Callable[[Sequence[Task], Sequence[Running], float], float | None],
        clock: Callable[[], float],
    ) -> None:
        self._remaining_s, self._clock = remaining_s, clock
        self._seen_s: list[float] = []
        self._end_s: float | None = None
        self._next_s = clock()

    def left_s(self) -> float | None:
        """None when nothing is known to tell it from."""
        return None if self._end_s is None else max(0.0, self._end_s - self._clock())

    def completed(self, duration_s: float) -> None:
        """An attempt took so long: others of which nothing is known will take as long."""
        self._seen_s.append(duration_s)

    def update(self, waiting: Sequence[Task], running: Sequence[Running]) -> None:
        """Call when something has ended."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        usual_s = fmean(self._seen_s) if self._seen_s else None
        tasks = [
            task if task.expected_s is not None else replace(task, expected_s=usual_s)
            for task in waiting
        ]
        left_s = self._remaining_s(tasks, running, now_s)
        self._end_s = None if left_s is None else now_s + left_s
        self._next_s = self._clock() + (self._clock() - now_s) / _SHARE_OF_A_CORE

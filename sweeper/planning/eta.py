"""Keeps an estimate of when a sweep will be through, at little cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

from sweeper.running.schedule import Running, Task

_SHARE_OF_A_CORE = 0.005  # what estimating may cost


class Eta:
    """Estimates by `remaining_s`: waiting tasks, running attempts, now -> seconds."""

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
        """Return the seconds left; None while no duration is known."""
        return None if self._end_s is None else max(0.0, self._end_s - self._clock())

    def completed(self, duration_s: float) -> None:
        """Note a duration; attempts without an estimate are expected to take as long."""
        self._seen_s.append(duration_s)

    def update(self, waiting: Sequence[Task], running: Sequence[Running]) -> None:
        """Call when something has ended."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        usual_s = fmean(self._seen_s) if self._seen_s else None
        tasks = []
        for task in waiting:
            if task.expected_s is None:
                task = replace(task, expected_s=usual_s)
            tasks.append(task)
        left_s = self._remaining_s(tasks, running, now_s)
        self._end_s = None if left_s is None else now_s + left_s
        self._next_s = self._clock() + (self._clock() - now_s) / _SHARE_OF_A_CORE

"""Holds what a proposal may cost, in attempts and in minutes, and knows what is left of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from scalemark.text.wording import counted, duration_text
from sweeper.judging.rule import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The rest that a verdict would take, of a proposal that the budget ended."""

    attempts: int | None  # None where too few runs tell
    seconds: float | None  # of these; None without a completed run


@dataclass(slots=True, kw_only=True)
class Budget:
    """The bounds of one proposal; the first that is reached counts."""

    attempts: int
    limit_s: float | None = None  # from the first look on
    expected_s: float | None = None  # of a run, by earlier ones
    clock: Callable[[], float]
    num_begun: int = 0
    took_s: Mapping[Side, list[float]] = field(default_factory=lambda: {one: [] for one in Side})
    _started_s: float | None = None

    def completed(self, side: Side, duration_s: float) -> None:
        """Note how long a run took by itself, without what it waited for before it was started."""
        self.took_s[side].append(duration_s)

    def run_s(self, side: Side) -> float | None:
        """Return what a run of this side takes: the median so far, else that of the other side,
        else what earlier ones took.
        """
        if self.took_s[side]:
            return median(self.took_s[side])
        others = [one for of_side in self.took_s.values() for one in of_side]
        return median(others) if others else self.expected_s

    def left_s(self) -> float | None:
        if self.limit_s is None:
            return None
        if self._started_s is None:
            self._started_s = self.clock()
        return self.limit_s - (self.clock() - self._started_s)

    def spent(self, side: Side) -> str:
        """Say why no run of this side may start; empty where one may."""
        if self.num_begun >= self.attempts:
            return "the budget is spent"
        left_s, run_s = self.left_s(), self.run_s(side)
        if left_s is None or (left_s >= (run_s or 0.0) and left_s > 0):
            return ""
        left = f"{duration_text(max(0.0, left_s))} of {duration_text(self.limit_s or 0.0)} left"
        takes = f", and a run of the {side} takes {duration_text(run_s)}" if run_s else ""
        return f"the time is spent: {left}{takes}"

    def left_text(self, side: Side) -> str:
        """Say how much time is left, for progress; empty without a limit."""
        left_s, run_s = self.left_s(), self.run_s(side)
        if left_s is None:
            return ""
        text = f"{duration_text(left_s)} of {duration_text(self.limit_s or 0.0)} left"
        holds = f": {counted(int(left_s / run_s), 'run')} at most" if run_s else ""
        return text + holds

    def needs(self, attempts: int | None) -> Needs:
        """Say what so many more attempts are, half of each side."""
        each_s = [self.run_s(side) for side in Side]
        known_s = [one for one in each_s if one is not None]
        if attempts is None or not known_s:
            return Needs(attempts=attempts, seconds=None)
        return Needs(attempts=attempts, seconds=attempts * sum(known_s) / len(known_s))

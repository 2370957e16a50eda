"""Holds one proposal while it is judged: its budget, what has run, and the observer that lets one
run after another start and gives up the rest once the verdict is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from scalemark.records.outcomes import Outcome
from scalemark.text.wording import counted, duration_text
from store.reading.earlier import CompletedRepeat
from sweeper.judging.rule import (
    Aim,
    ChangeVerdict,
    Runs,
    Side,
    attempts_to_verdict,
    decide,
    next_side,
)
from sweeper.loop.backlog import Backlog
from sweeper.race.racing_observer import Observer
from sweeper.running.schedule import Task

ReadResults = Callable[[], Mapping[str, tuple[CompletedRepeat, ...]]]
"""Returns trial id -> repeats that were completed for this proposal."""


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


class Judging(Observer):
    """One proposal while it is judged, and the observer of its sweep: of the repeats of its two
    trials one at a time waits, all others are held back.
    """

    def __init__(
        self,
        *,
        trial_ids: Mapping[Side, str],
        aim: Aim,
        budget: Budget,
        runs: Runs,  # at first those from earlier
        read: ReadResults,
    ) -> None:
        super().__init__()
        self._trial_ids, self._aim, self._read = trial_ids, aim, read
        self.budget, self.runs = budget, runs
        self.verdict: ChangeVerdict | None = None
        self.why = ""  # where the runs do not say it
        self.baseline_failed = False
        self.needs: Needs | None = None  # where the budget ended it
        self._running: set[int] = set()

    def observe(
        self,
        backlog: Backlog,
        skip: Callable[[Sequence[int], str], None],
        tell: Callable[[str], object],
    ) -> Observer:
        """Observe a sweep that begins, as `MakeObserver` does."""
        self._backlog, self._skip, self._tell = backlog, skip, tell
        return self

    def begun(self, key: int) -> None:
        self._running.add(key)
        self.budget.num_begun += 1

    def ended(self, key: int, final: Outcome | None, duration_s: float) -> None:
        self._running.discard(key)
        side = self._side_of(key)
        if final is Outcome.COMPLETED:
            self.budget.completed(side, duration_s)
        elif final not in (None, Outcome.INTERRUPTED):
            is_change = side is Side.CHANGE
            self.verdict = ChangeVerdict.FAILED if is_change else ChangeVerdict.UNDECIDED
            self.why = f"the {side} ended as {final}"
            self.baseline_failed = not is_change

    def expected(self) -> Collection[Task]:
        return self.held_back.values()  # at most: the verdict may be sure before

    def steer(self, key: int) -> None:
        self.steer_all()

    def steer_all(self) -> None:
        if self._running:
            return
        self._learn()
        side = None if self.verdict else next_side(self.runs)
        if side and (why := self.budget.spent(side)):
            self._give_up(why)
            self.needs = self.budget.needs(attempts_to_verdict(self.runs, self._aim))
        for task in self._backlog.waiting():
            self.held_back[task.key] = self._backlog.remove(task.key)
        keys = [key for key in self.held_back if self._side_of(key) is side]
        if side and self.verdict is None and not keys:
            self._give_up(f"no run of the {side} is left, as completed ones have no number")
        if side is None or self.verdict:
            given_up = list(self.held_back)
            self.held_back.clear()
            if given_up:
                self._skip(given_up, f"judge: {self.verdict}")
            return
        if left := self.budget.left_text(side):
            self._tell(f"judge: {left}")
        # in the order of their keys: one that is tried again comes before those not begun
        key = min(keys)
        self._backlog.queue.put_back(self.held_back.pop(key))

    def _learn(self) -> None:
        """Read what was completed, and decide. Raises StoreError."""
        completed = self._read()
        change = completed.get(self._trial_ids[Side.CHANGE], ())
        baseline = completed.get(self._trial_ids[Side.BASELINE], ())
        self.runs = replace(
            self.runs,
            change=tuple(repeat.throughput for repeat in change),
            baseline=tuple(repeat.throughput for repeat in baseline),
        )
        if self.verdict:
            return
        items = {repeat.item for repeat in (*change, *baseline)}
        if len(items) > 1:
            self.verdict = ChangeVerdict.FAILED
            self.why = f"one side counts {' and the other '.join(sorted(items))}"
        else:
            self.verdict = decide(self.runs, self._aim)

    def _give_up(self, why: str) -> None:
        self.verdict, self.why = ChangeVerdict.UNDECIDED, why

    def _side_of(self, key: int) -> Side:
        is_change = self._backlog[key].open.trial_id == self._trial_ids[Side.CHANGE]
        return Side.CHANGE if is_change else Side.BASELINE

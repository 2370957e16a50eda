"""A contest of a change and its baseline: one of the two runs after the other, until the verdict is
sure or a budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from scalemark.records.outcomes import Outcome
from scalemark.text.wording import duration_text
from store.reading.earlier import CompletedRepeat
from sweeper.early_stopping.rule import (
    Aim,
    ChangeVerdict,
    JudgedSide,
    Ruling,
    Runs,
    decide,
    next_side,
)

ReadResults = Callable[[], Mapping[str, tuple[CompletedRepeat, ...]]]
"""Returns trial id -> repeats that were completed for this proposal."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """The bounds of one proposal; the first that is reached counts."""

    attempts: int
    limit_s: float | None = None  # from the first look on
    expected_s: float | None = None  # of a run, by earlier ones
    clock: Callable[[], float]
    num_begun: int = 0
    took_s: Mapping[JudgedSide, list[float]] = field(
        default_factory=lambda: {side: [] for side in JudgedSide}
    )
    _end_s: float | None = None

    def spent(self, side: JudgedSide) -> str:
        """Say why no run of this side may start; empty where one may.

        A run takes the median of its side so far, else of the other, else what earlier ones took.
        """
        if self.num_begun >= self.attempts:
            return "the budget is spent"
        if self.limit_s is None:
            return ""
        now_s = self.clock()
        if self._end_s is None:
            self._end_s = now_s + self.limit_s
        left_s = self._end_s - now_s
        durations_s = self.took_s[side] or self.took_s[side.other]
        run_s = median(durations_s) if durations_s else self.expected_s
        if left_s >= (run_s or 0.0) and left_s > 0:
            return ""
        left = f"{duration_text(max(0.0, left_s))} of {duration_text(self.limit_s)} left"
        takes = f", and a run of the {side} takes {duration_text(run_s)}" if run_s else ""
        return f"the time is spent: {left}{takes}"


class Proposal:
    """A change that is judged beside its baseline."""

    may_use_all = True

    def __init__(
        self,
        *,
        trials: Mapping[JudgedSide, str],  # their ids
        aim: Aim,
        budget: Budget,
        runs: Runs,  # at first those from earlier
        read: ReadResults,
    ) -> None:
        self.trial_ids = tuple(trials.values())
        self.num_completed: Mapping[str, int] = {}  # runs take turns: there are no rounds
        self._trials, self._aim, self._read = trials, aim, read
        self.budget, self.runs = budget, runs
        self.verdict: ChangeVerdict | None = None
        self.why = ""  # where the runs do not say it
        self.baseline_failed = False
        self.is_spent = False  # the budget ended it

    def begun(self, trial_id: str) -> None:
        self.budget.num_begun += 1

    def ended(self, trial_id: str, final: Outcome | None, duration_s: float) -> None:
        side = self._side_of(trial_id)
        if final is Outcome.COMPLETED:
            self.budget.took_s[side].append(duration_s)
        elif final not in (None, Outcome.INTERRUPTED):
            self.why = f"the {side} ended as {final}"
            self.baseline_failed = side is JudgedSide.BASELINE
            self.verdict = ChangeVerdict.FAILED
            if self.baseline_failed:
                self.verdict = ChangeVerdict.UNDECIDED

    def learn(self) -> None:
        """Read what was completed, and decide. Raises StoreError."""
        completed = self._read()
        change = completed.get(self._trials[JudgedSide.CHANGE], ())
        baseline = completed.get(self._trials[JudgedSide.BASELINE], ())
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

    def rule(self, num_left: Mapping[str, int]) -> Ruling:
        """Want one run of the next side, as long as there is no verdict."""
        wanted = dict.fromkeys(self.trial_ids, 0)
        if not self.verdict:
            side = next_side(self.runs)
            wanted[self._trials[side]] = 1
            if not num_left[self._trials[side]]:
                self.why = f"no run of the {side} is left, as completed ones have no number"
                self.verdict = ChangeVerdict.UNDECIDED
            elif why := self.budget.spent(side):
                self.why, self.verdict = why, ChangeVerdict.UNDECIDED
                self.is_spent = True
        if self.verdict:
            wanted = dict.fromkeys(self.trial_ids, 0)
        return Ruling(wanted=wanted, out=dict.fromkeys(self.trial_ids, f"judge: {self.verdict}"))

    def result(self, ruling: Ruling, num_spared: int) -> str:
        """Say nothing: `judge` prints the answer."""
        return ""

    def _side_of(self, trial_id: str) -> JudgedSide:
        return (
            JudgedSide.CHANGE
            if trial_id == self._trials[JudgedSide.CHANGE]
            else JudgedSide.BASELINE
        )

"""Holds the state of one proposal: what it aims at, what has run, and what is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from scalemark.records.outcomes import Outcome
from store.reading.completed_repeats import CompletedRepeat
from sweeper.judging.budget import Budget, Needs
from sweeper.judging.rule import (
    Aim,
    ChangeVerdict,
    Runs,
    Side,
    attempts_to_verdict,
    decide,
    next_side,
)

ReadResults = Callable[[], Mapping[str, tuple[CompletedRepeat, ...]]]
"""Returns trial id -> repeats that were completed for this proposal."""


@dataclass(slots=True, kw_only=True)
class Judging:
    """One proposal while it is judged."""

    trial_ids: Mapping[Side, str]
    aim: Aim
    budget: Budget
    runs: Runs  # at first those from earlier
    read: ReadResults
    verdict: ChangeVerdict | None = None
    why: str = ""  # where the runs do not say it
    baseline_failed: bool = False
    needs: Needs | None = None  # where the budget ended it

    def side_of(self, trial_id: str) -> Side:
        return Side.CHANGE if trial_id == self.trial_ids[Side.CHANGE] else Side.BASELINE

    def wanted(self) -> Side | None:
        """Return which side runs next; None once there is a verdict."""
        return None if self.verdict else next_side(self.runs)

    def failed(self, side: Side, outcome: Outcome) -> None:
        """Note that a run ended so for good."""
        if side is Side.CHANGE:
            self.verdict, self.why = ChangeVerdict.FAILED, f"the change ended as {outcome}"
        else:
            self.verdict, self.baseline_failed = ChangeVerdict.UNDECIDED, True
            self.why = f"the baseline ended as {outcome}"

    def learn(self) -> None:
        """Read what was completed, and decide. Raises StoreError."""
        found = self.read()
        of_side = {side: found.get(trial_id, ()) for side, trial_id in self.trial_ids.items()}
        self.runs = replace(
            self.runs,
            change=tuple(one.throughput for one in of_side[Side.CHANGE]),
            baseline=tuple(one.throughput for one in of_side[Side.BASELINE]),
        )
        items = {one.item for repeats in of_side.values() for one in repeats}
        if self.verdict is None and len(items) > 1:
            self.verdict = ChangeVerdict.FAILED
            self.why = f"one side counts {' and the other '.join(sorted(items))}"
        if self.verdict is None:
            self.verdict = decide(self.runs, self.aim)

    def run_out(self, side: Side) -> None:
        """Give up where no run of this side is left: completed ones have been deleted."""
        self.verdict = ChangeVerdict.UNDECIDED
        self.why = f"no run of the {side} is left, as completed ones have no number"

    def spend(self) -> None:
        """Give up where the budget holds no other run. Call it while none runs."""
        side = self.wanted()
        why = self.budget.spent(side) if side else ""
        if why:
            self.verdict, self.why = ChangeVerdict.UNDECIDED, why
            self.needs = self.budget.needs(attempts_to_verdict(self.runs, self.aim))

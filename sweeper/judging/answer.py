"""The answer of `judge`: what is planned of a proposal and, once it has run, what it showed."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.judging.rule import ChangeVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Facts about a proposal, as `--json` prints them; those with a default come of running it."""

    verdict: ChangeVerdict | None = None
    why: str = ""  # where the runs do not say it
    gain_percent: float | None = None
    low_percent: float | None = None  # of the interval that holds the gain at all looks
    high_percent: float | None = None
    attempts: int = 0
    budget_is_spent: bool = False  # it ended without a verdict, and the next two say what is left
    needed_attempts: int | None = None  # None where too few runs tell
    needed_s: float | None = None
    change_throughputs: tuple[float, ...] = ()
    baseline_throughputs: tuple[float, ...] = ()
    failures: tuple[str, ...] = ()  # a line per run that did not complete
    error: str | None = None  # the baseline failed: nothing can be judged beside it
    baseline: str  # id of a trial
    change: str
    baseline_expected_s: float | None  # of an attempt, by earlier ones
    change_expected_s: float | None
    changes: tuple[str, ...]  # as given, without secrets
    budget: int  # attempts
    budget_s: float | None
    least_attempts: int  # of a win
    margin_percent: float  # the gain that matters
    earlier_throughputs: tuple[float, ...]  # of the baseline
    series: str
    number: int  # of the proposal in its series
    wins_before: int
    false_wins_percent: float  # of the series' wins
    level: float  # of a false win of this proposal
    other_work: tuple[str, ...]  # axes by which the two train on different things
    sweep: str

    @property
    def attempt_s(self) -> float | None:
        """Return how long an attempt of the slower side takes; None without earlier ones."""
        return max(filter(None, (self.baseline_expected_s, self.change_expected_s)), default=None)

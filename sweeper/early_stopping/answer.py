"""The answer of `judge`: what is planned of a proposal and, once it has run, what it showed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scalemark.records.overrides import ID_DIGITS
from scalemark.text.wording import counted, duration_text, joined
from sweeper.early_stopping.rule import LEAST_EARLIER, ChangeVerdict, Runs

MOST_ATTEMPTS = 1000  # that `--budget` takes

MEANINGS = {
    ChangeVerdict.BETTER: "it is faster",
    ChangeVerdict.WORSE: "it is slower",
    ChangeVerdict.NO_GAIN: "a gain of {margin} % is unlikely; it may be slower",
    ChangeVerdict.UNDECIDED: "{why}",
    ChangeVerdict.FAILED: "{why}",
    ChangeVerdict.INTERRUPTED: "its number in the series is spent; the same command begins anew",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAnswer:
    """Facts about a proposal, as `--json` prints them; those with a default come of running it."""

    verdict: ChangeVerdict | None = None
    why: str = ""  # where the runs do not say it
    gain_percent: float | None = None
    low_percent: float | None = None  # of the interval that holds the gain at all looks
    high_percent: float | None = None
    attempts: int = 0
    budget_is_spent: bool = False  # it ended without a verdict
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


def answer_lines(answer: JudgeAnswer) -> Iterator[str]:
    """Describe the plan, or the result where there is one."""
    if answer.verdict is None:
        yield from _plan_lines(answer)
    else:
        yield from _result_lines(answer, answer.verdict)
    series = f"series {answer.series}" if answer.series else "this database"
    yield (
        f"proposal {answer.number} of {series}, after {counted(answer.wins_before, 'win')}; of all "
        f"wins of {series} at most {answer.false_wins_percent:g} % are false on average"
    )


def _plan_lines(answer: JudgeAnswer) -> Iterator[str]:
    yield f"baseline  {_trial_text(answer.baseline, answer.baseline_expected_s)}"
    change = _trial_text(answer.change, answer.change_expected_s)
    yield f"change    {change}: {joined(answer.changes)}"
    bound = f"at most {counted(answer.budget, 'attempt')}"
    if answer.budget_s is not None:
        bound += f" in {duration_text(answer.budget_s)}"
        if answer.attempt_s:
            bound += f", which hold about {int(answer.budget_s / answer.attempt_s)}"
    yield f"{bound}; a win of this proposal takes {answer.least_attempts} or more"
    earlier = answer.earlier_throughputs
    order = ", which drift: both sides take turns from the beginning"
    if Runs(earlier=earlier).num_alone > 1:
        order = ": the change runs alone first, and may be given up beside them"
    elif len(earlier) < LEAST_EARLIER:
        order = f", fewer than {LEAST_EARLIER}: both sides take turns from the beginning"
    runs = counted(len(earlier), "run")
    yield f"{runs} of the baseline with this software in the last two hours{order}"
    yield from _other_work_lines(answer)


def _result_lines(answer: JudgeAnswer, verdict: ChangeVerdict) -> Iterator[str]:
    meaning = MEANINGS[verdict].format(margin=f"{answer.margin_percent:g}", why=answer.why)
    yield f"{verdict.replace('_', ' ')}: {meaning}"
    yield from answer.failures
    yield from _other_work_lines(answer)
    if answer.gain_percent is not None:
        interval = ""
        if answer.low_percent is not None and answer.high_percent is not None:
            interval = f" [{answer.low_percent:+.1f}, {answer.high_percent:+.1f}]"
        beside = "" if answer.baseline_throughputs else ", beside earlier runs of the baseline"
        yield f"throughput {answer.gain_percent:+.1f} %{interval}{beside}"
    yield (
        f"{counted(answer.attempts, 'attempt')} of {answer.budget}: "
        f"{len(answer.change_throughputs)} of the change and {len(answer.baseline_throughputs)} of "
        f"the baseline completed, in sweep {answer.sweep}"
    )
    if answer.budget_is_spent:
        yield "these runs leave it open: judge it again with a larger budget"


def _other_work_lines(answer: JudgeAnswer) -> Iterator[str]:
    if answer.other_work:
        yield (
            f"other work: the two differ in {', '.join(answer.other_work)}, so that a gain of "
            "throughput may be of easier items and not of a faster way"
        )


def _trial_text(trial_id: str, expected_s: float | None) -> str:
    took = "of unknown duration"
    if expected_s is not None:
        took = f"{duration_text(expected_s)} per attempt"
    return f"{trial_id[:ID_DIGITS]}, {took}"

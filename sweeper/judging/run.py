"""Judges one proposal: plans its two trials, runs them in turn, and keeps what is found."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from scalemark.records.validation import storable
from scalemark.stats.paired_evidence import level_of
from scalemark.text.untrusted import command_line, masked, without_secrets
from scalemark.text.wording import duration_text
from store import judgements
from store.database import DATABASE_VARIABLE, open_for_reading
from store.errors import StoreError
from store.judgements import JudgedProposal, NewJudgement, SeriesPlace
from store.reading.earlier import completed_repeats, completed_repeats_of_sweep
from sweeper.errors import SweepRefusedError
from sweeper.judging.answer import Answer
from sweeper.judging.judging import Budget, Judging
from sweeper.judging.rule import (
    MOST_EARLIER,
    Aim,
    ChangeVerdict,
    Runs,
    Side,
    gain_of,
    least_attempts,
    most_runs,
)
from sweeper.judging.two_trials import TwoTrials, two_trials
from sweeper.planning.plan import Plan, PlannedTrial
from sweeper.report import Failure
from sweeper.sweep import open_writer
from sweeper.way import Planned

EARLIER_WITHIN = timedelta(hours=2)
"""Older runs of the baseline are left out: a machine is not the same for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The request of a user of `judge`."""

    db: str
    baseline: str  # the beginning of a trial's id
    changes: tuple[str, ...]
    budget: int  # attempts
    margin: float  # the gain that matters, as 0.02
    allowed: float  # share of the series' wins that may be false
    budget_s: float | None = None  # no run starts that would end later
    series: str = ""
    both_sides: bool = False
    fresh: bool = False  # look at no earlier runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposal that can be judged."""

    asked: Asked
    trials: TwoTrials
    answer: Answer  # as far as it is known before anything runs


def plan(asked: Asked) -> Proposal:
    """Raises SweepRefusedError or StoreError for what cannot be judged."""
    with _database(asked.db):
        trials = two_trials(asked.baseline, asked.changes)
    engine = open_for_reading(asked.db)
    place = judgements.next_place(engine, asked.series, asked.allowed, level_of)
    answer = _planned_answer(asked, trials, engine, place)
    if asked.budget < answer.least_attempts:
        raise SweepRefusedError(
            f"--budget {asked.budget}: no gain, however large, can win with fewer than "
            f"{answer.least_attempts} attempts (proposal {place.number} of its series, which "
            f"allows {100 * asked.allowed:g} % false wins); give as many or more"
        )
    attempt_s = answer.attempt_s
    if asked.budget_s and attempt_s and asked.budget_s < attempt_s:
        raise SweepRefusedError(
            f"--budget-min {asked.budget_s / 60:g}: one attempt takes {duration_text(attempt_s)}, "
            f"by earlier ones, and a win {answer.least_attempts} attempts or more; give as many "
            "minutes"
        )
    return Proposal(asked=asked, trials=trials, answer=answer)


def judge(proposal: Proposal, typed: Sequence[str]) -> Answer:
    """Run the proposal until the verdict is sure; `typed` is the command, for the database.

    Raises SweepRefusedError or StoreError.
    """
    asked, trials = proposal.asked, proposal.trials
    sweep = trials.config.sweep
    num_runs = most_runs(Runs(earlier=proposal.answer.earlier_throughputs), asked.budget)
    sweep.rerun, sweep.repeats = True, max(num_runs.values())
    change = storable(without_secrets(command_line(asked.changes)))
    sweep.reason = f"judge {change}"
    with ExitStack() as stack:
        writer = open_writer(asked.db)
        stack.callback(writer.close)
        new = NewJudgement(
            series=asked.series,
            sweep=trials.name,
            baseline_trial=trials.baseline.trial_id,
            change_trial=trials.change.trial_id,
            change=change,
            margin=asked.margin,
            allowed=asked.allowed,
            started_at=datetime.now(UTC),
        )
        place = judgements.begin(writer.engine, new, level_of)
        judging = _judging(proposal, place, writer.engine)
        planned = _planned(trials, num_runs, judging, writer.engine)
        with _named("scalemark judge"):
            runner = trials.way.runner(planned, writer, stack, typed)
        runner.run()
        if runner.failure is not None:
            raise StoreError(str(runner.failure))
        if judging.verdict is None:
            judging.verdict = ChangeVerdict.INTERRUPTED
        answer = _answer(proposal.answer, place, judging, runner.ran.failures)
        gain = gain_of(judging.runs)
        judged = JudgedProposal(
            verdict=judging.verdict,
            num_attempts=answer.attempts,
            gain=gain.value if gain else None,
            gain_low=gain.low if gain else None,
            gain_high=gain.high if gain else None,
        )
        judgements.end(writer.engine, asked.series, place.number, judged, datetime.now(UTC))
        writer.settle()
    return answer


def _answer(
    planned: Answer, place: SeriesPlace, judging: Judging, failures: Sequence[Failure]
) -> Answer:
    """Complete the plan's answer with what the runs showed."""
    gain, needs = gain_of(judging.runs), judging.needs
    return replace(
        planned,
        number=place.number,
        wins_before=place.num_wins,
        level=place.level,
        verdict=judging.verdict,
        why=judging.why,
        gain_percent=_percent(gain.value if gain else None),
        low_percent=_percent(gain.low if gain else None),
        high_percent=_percent(gain.high if gain else None),
        attempts=judging.budget.num_begun,
        budget_is_spent=needs is not None,
        needed_attempts=needs.attempts if needs else None,
        needed_s=needs.seconds if needs else None,
        change_throughputs=judging.runs.change,
        baseline_throughputs=judging.runs.baseline,
        failures=tuple(failure.line for failure in failures),
        error=judging.why if judging.baseline_failed else None,
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _planned_answer(
    asked: Asked, trials: TwoTrials, engine: sa.Engine, place: SeriesPlace
) -> Answer:
    way, baseline = trials.way, trials.baseline.trial_id
    earlier: tuple[float, ...] = ()
    if not asked.fresh and not asked.both_sides:
        since = datetime.now(UTC) - EARLIER_WITHIN
        completed = completed_repeats(
            engine, [baseline], way.machine.key, way.software_key, since=since
        )
        repeats = completed.get(baseline, ())[-MOST_EARLIER:]
        earlier = tuple(repeat.throughput for repeat in repeats)
    estimate = way.planned(Plan(trials=(), left_out=()), engine).estimate
    return Answer(
        baseline=baseline,
        change=trials.change.trial_id,
        baseline_expected_s=estimate.expected_s(trials.baseline),
        change_expected_s=estimate.expected_s(trials.change),
        changes=tuple(masked(change) for change in asked.changes),
        budget=asked.budget,
        budget_s=asked.budget_s,
        least_attempts=least_attempts(Runs(earlier=earlier), place.level),
        margin_percent=100 * asked.margin,
        earlier_throughputs=earlier,
        series=asked.series,
        number=place.number,
        wins_before=place.num_wins,
        false_wins_percent=100 * asked.allowed,
        level=place.level,
        other_work=trials.other_work,
        sweep=trials.name,
    )


def _judging(proposal: Proposal, place: SeriesPlace, engine: sa.Engine) -> Judging:
    asked, trials = proposal.asked, proposal.trials
    ids = {Side.CHANGE: trials.change.trial_id, Side.BASELINE: trials.baseline.trial_id}
    return Judging(
        trial_ids=ids,
        aim=Aim(level=place.level, margin=asked.margin, both_sides=asked.both_sides),
        budget=Budget(
            attempts=asked.budget,
            limit_s=asked.budget_s,
            expected_s=proposal.answer.attempt_s,
            clock=time.monotonic,
        ),
        runs=Runs(earlier=proposal.answer.earlier_throughputs),
        read=lambda: completed_repeats_of_sweep(engine, list(ids.values()), trials.name),
    )


def _planned(
    trials: TwoTrials, num_runs: Mapping[Side, int], judging: Judging, engine: sa.Engine
) -> Planned:
    both = {Side.CHANGE: trials.change, Side.BASELINE: trials.baseline}
    planned = tuple(
        PlannedTrial(spec=spec, num_repeats=num_runs[side]) for side, spec in both.items()
    )
    found = trials.way.planned(Plan(trials=planned, left_out=()), engine)
    return Planned(plan=found.plan, estimate=found.estimate, observe=judging.observe)


@contextmanager
def _database(url: str) -> Iterator[None]:
    """Have a sweep find its database where the user named it; a URL is no word of Hydra's."""
    before = os.environ.get(DATABASE_VARIABLE)
    os.environ[DATABASE_VARIABLE] = url
    try:
        yield
    finally:
        del os.environ[DATABASE_VARIABLE]
        if before is not None:
            os.environ[DATABASE_VARIABLE] = before


@contextmanager
def _named(program: str) -> Iterator[None]:
    """Have the database keep the command as this."""
    before, sys.argv = sys.argv, [program]
    try:
        yield
    finally:
        sys.argv = before

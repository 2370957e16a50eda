"""Judges one proposal: plans its two trials, runs them in turn, and keeps what is found."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import sqlalchemy as sa

from scalemark.records.validation import storable
from scalemark.stats.paired_evidence import level_of
from scalemark.text.untrusted import command_line, without_secrets
from scalemark.text.wording import duration_text
from store import judgements
from store.database import DATABASE_VARIABLE, open_for_reading
from store.errors import StoreError
from store.judgements import Judged, NewJudgement, Place
from store.reading.completed_repeats import completed_repeats, completed_repeats_of_sweep
from sweeper.errors import SweepRefusedError
from sweeper.judging.judging import Budget, Judging, JudgingObserver, Needs
from sweeper.judging.rule import (
    MOST_EARLIER,
    Aim,
    ChangeVerdict,
    Gain,
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
    place: Place
    earlier: tuple[float, ...]  # throughput of the baseline's runs
    expected_s: Mapping[Side, float | None]  # of an attempt

    @property
    def least_attempts(self) -> int:
        """Return after how many a win is possible."""
        return least_attempts(Runs(earlier=self.earlier), self.place.level)

    @property
    def attempt_s(self) -> float | None:
        """Return how long one of the slower side takes, by earlier ones; None without any."""
        return max((one for one in self.expected_s.values() if one), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer about a proposal."""

    proposal: Proposal
    verdict: ChangeVerdict
    why: str
    runs: Runs
    gain: Gain | None
    num_attempts: int
    needs: Needs | None  # of one that the budget ended
    failures: Sequence[str]  # a line per run that did not complete
    baseline_failed: bool  # nothing can be judged beside it


def plan(asked: Asked) -> Proposal:
    """Raises SweepRefusedError or StoreError for what cannot be judged."""
    with _database(asked.db):
        trials = two_trials(asked.baseline, asked.changes)
    engine = open_for_reading(asked.db)
    place = judgements.next_place(engine, asked.series, asked.allowed, level_of)
    proposal = _proposal(asked, trials, engine, place)
    if asked.budget < proposal.least_attempts:
        raise SweepRefusedError(
            f"--budget {asked.budget}: no gain, however large, can win with fewer than "
            f"{proposal.least_attempts} attempts (proposal {place.number} of its series, which "
            f"allows {100 * asked.allowed:g} % false wins); give as many or more"
        )
    attempt_s = proposal.attempt_s
    if asked.budget_s and attempt_s and asked.budget_s < attempt_s:
        raise SweepRefusedError(
            f"--budget-min {asked.budget_s / 60:g}: one attempt takes {duration_text(attempt_s)}, "
            f"by earlier ones, and a win {proposal.least_attempts} attempts or more; give as many "
            "minutes"
        )
    return proposal


def judge(proposal: Proposal, typed: Sequence[str]) -> Judgement:
    """Run the proposal until the verdict is sure; `typed` is the command, for the database.

    Raises SweepRefusedError or StoreError.
    """
    asked, trials = proposal.asked, proposal.trials
    sweep = trials.config.sweep
    num_runs = most_runs(Runs(earlier=proposal.earlier), asked.budget)
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
        found = _judgement(proposal, place, judging, runner.ran.failures)
        judgements.end(writer.engine, asked.series, place.number, _stored(found), datetime.now(UTC))
        writer.settle()
    return found


def _proposal(asked: Asked, trials: TwoTrials, engine: sa.Engine, place: Place) -> Proposal:
    way, baseline = trials.way, trials.baseline.trial_id
    earlier: tuple[float, ...] = ()
    if not asked.fresh and not asked.both_sides:
        since = datetime.now(UTC) - EARLIER_WITHIN
        found = completed_repeats(
            engine, [baseline], way.machine.key, way.software_key, since=since
        )
        earlier = tuple(one.throughput for one in found.get(baseline, ()))[-MOST_EARLIER:]
    estimate = way.planned(Plan(trials=(), left_out=()), engine).estimate
    return Proposal(
        asked=asked,
        trials=trials,
        place=place,
        earlier=earlier,
        expected_s={
            Side.BASELINE: estimate.expected_s(trials.baseline),
            Side.CHANGE: estimate.expected_s(trials.change),
        },
    )


def _judging(proposal: Proposal, place: Place, engine: sa.Engine) -> Judging:
    asked, trials = proposal.asked, proposal.trials
    ids = {Side.CHANGE: trials.change.trial_id, Side.BASELINE: trials.baseline.trial_id}
    return Judging(
        trial_ids=ids,
        aim=Aim(level=place.level, margin=asked.margin, both_sides=asked.both_sides),
        budget=Budget(
            attempts=asked.budget,
            limit_s=asked.budget_s,
            expected_s=proposal.attempt_s,
            clock=time.monotonic,
        ),
        runs=Runs(earlier=proposal.earlier),
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
    return Planned(
        plan=found.plan, estimate=found.estimate, observe=partial(JudgingObserver, judging)
    )


def _judgement(
    proposal: Proposal, place: Place, judging: Judging, failures: Sequence[Failure]
) -> Judgement:
    assert judging.verdict is not None
    return Judgement(
        proposal=replace(proposal, place=place),
        verdict=judging.verdict,
        why=judging.why,
        runs=judging.runs,
        gain=gain_of(judging.runs),
        num_attempts=judging.budget.num_begun,
        needs=judging.needs,
        failures=[failure.line for failure in failures],
        baseline_failed=judging.baseline_failed,
    )


def _stored(found: Judgement) -> Judged:
    gain = found.gain
    return Judged(
        verdict=found.verdict,
        num_attempts=found.num_attempts,
        gain=gain.value if gain else None,
        gain_low=gain.low if gain else None,
        gain_high=gain.high if gain else None,
    )


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

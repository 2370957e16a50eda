"""Judges one proposal: plans its two trials, runs them in turn, and keeps the verdict."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from conf.schema import Config, Invalid
from scalemark.abilities import LOCAL
from scalemark.host.own_code import import_ours, typed
from scalemark.records.axes import Engine
from scalemark.records.overrides import SETTING, key_of
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import storable
from scalemark.stats.paired_evidence import level_of
from scalemark.text.untrusted import command_line, masked, without_secrets
from scalemark.text.wording import duration_text, joined
from store import judgements
from store.database import DATABASE_VARIABLE, open_for_reading
from store.errors import StoreError
from store.judgements import JudgedProposal, NewJudgement, SeriesPlace
from store.reading.earlier import completed_repeats, completed_repeats_of_sweep
from sweeper.early_stopping.answer import JudgeAnswer
from sweeper.early_stopping.proposal import Budget, Proposal
from sweeper.early_stopping.rule import (
    MOST_EARLIER,
    Aim,
    ChangeVerdict,
    JudgedSide,
    Runs,
    gain_of,
    least_attempts,
    most_runs,
)
from sweeper.errors import SweepRefusedError
from sweeper.grid.compose import Grid
from sweeper.grid.expand import WHOLE_SWEEP
from sweeper.local_sweep import LocalSweep
from sweeper.planning.plan import Plan, PlannedTrial, resolve_grid
from sweeper.planning.plan_view import Planned
from sweeper.planning.settings import check, check_folders
from sweeper.planning.simulate import Estimate
from sweeper.program_software import check_programs
from sweeper.report import Failure
from sweeper.sweep import open_writer

EARLIER_WITHIN = timedelta(hours=2)
"""Older runs of the baseline are left out: a machine is not the same for long."""

_OF_BOTH = ("launcher", "retry", "store")  # settings that both trials run with
# axes that say what a step works on, not how; throughputs with other ones count unlike items
_WORK = ("data", "data_dir", "distortions", "image_px", "seq_len", "num_classes")


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
    fresh: bool = False  # look at no earlier runs


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProposal:
    """A proposal that can be judged."""

    asked: Asked
    name: str  # of its sweep
    way: LocalSweep
    trials: dict[JudgedSide, TrialSpec]
    answer: JudgeAnswer  # as far as it is known before anything runs

    @property
    def trial_ids(self) -> dict[JudgedSide, str]:
        return {side: spec.trial_id for side, spec in self.trials.items()}


def plan(asked: Asked) -> PlannedProposal:
    """Raises SweepRefusedError or StoreError for what cannot be judged."""
    with _database(asked.db):
        config, baseline_grid = _baseline_grid(asked)
        name = f"judge-{check(config)}"
        check_folders(config.store)
        if config.launcher.name != LOCAL or config.launcher.share_host:
            share_host = str(config.launcher.share_host).lower()
            raise SweepRefusedError(
                f"launcher={config.launcher.name}, share_host={share_host}: runs are compared one "
                "after the other on this host; give launcher=local launcher.share_host=false"
            )
        way = LocalSweep(config, name)
        trials = _two_trials(asked, way, baseline_grid)
    engine = open_for_reading(asked.db)
    place = judgements.next_place(engine, asked.series, asked.allowed, level_of)
    answer = _planned_answer(asked, name, way, trials, place, engine)
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
    return PlannedProposal(asked=asked, name=name, way=way, trials=trials, answer=answer)


def judge(planned: PlannedProposal, command: Sequence[str]) -> JudgeAnswer:
    """Run the proposal until the verdict is sure; `command` are its words, for the database.

    Raises SweepRefusedError or StoreError.
    """
    asked, way, trials = planned.asked, planned.way, planned.trials
    sweep = way.config.sweep
    num_runs = most_runs(Runs(earlier=planned.answer.earlier_throughputs), asked.budget)
    sweep.rerun, sweep.repeats = True, max(num_runs.values())
    change = storable(without_secrets(command_line(asked.changes)))
    sweep.reason = f"judge {change}"
    with ExitStack() as stack:
        writer = open_writer(asked.db)
        stack.callback(writer.close)
        new = NewJudgement(
            series=asked.series,
            sweep=planned.name,
            baseline_trial=trials[JudgedSide.BASELINE].trial_id,
            change_trial=trials[JudgedSide.CHANGE].trial_id,
            change=change,
            margin=asked.margin,
            allowed=asked.allowed,
            started_at=datetime.now(UTC),
        )
        place = judgements.begin(writer.engine, new, level_of)
        proposal = _proposal(planned, place, writer.engine)
        to_run = []
        for side, spec in trials.items():
            to_run.append(PlannedTrial(spec=spec, num_repeats=num_runs[side]))
        given = Planned(
            plan=Plan(trials=tuple(to_run), left_out=()),
            estimate=Estimate.of(writer.engine, way.machine.key),
            contests=(proposal,),
        )
        runner = way.runner(given, writer, stack, command)
        runner.run()
        if runner.failure is not None:
            raise StoreError(str(runner.failure))
        if proposal.verdict is None:
            proposal.verdict = ChangeVerdict.INTERRUPTED
        answer = _answer(planned.answer, place, proposal, runner.ran.failures)
        judged = _judged(proposal, proposal.verdict)
        judgements.end(writer.engine, asked.series, place.number, judged, datetime.now(UTC))
        writer.settle()
    return answer


def _proposal(planned: PlannedProposal, place: SeriesPlace, engine: sa.Engine) -> Proposal:
    asked, ids = planned.asked, list(planned.trial_ids.values())
    return Proposal(
        trials=planned.trial_ids,
        aim=Aim(level=place.level, margin=asked.margin),
        budget=Budget(
            attempts=asked.budget,
            limit_s=asked.budget_s,
            expected_s=planned.answer.attempt_s,
            clock=time.monotonic,
        ),
        runs=Runs(earlier=planned.answer.earlier_throughputs),
        read=lambda: completed_repeats_of_sweep(engine, ids, planned.name),
    )


def _judged(proposal: Proposal, verdict: ChangeVerdict) -> JudgedProposal:
    """Return what the database keeps of it."""
    gain = gain_of(proposal.runs)
    return JudgedProposal(
        verdict=verdict,
        num_attempts=proposal.budget.num_begun,
        gain=gain.value if gain else None,
        gain_low=gain.low if gain else None,
        gain_high=gain.high if gain else None,
    )


def _answer(
    planned: JudgeAnswer, place: SeriesPlace, proposal: Proposal, failures: Sequence[Failure]
) -> JudgeAnswer:
    """Complete the plan's answer with what the runs showed."""
    gain = gain_of(proposal.runs)
    return replace(
        planned,
        number=place.number,
        wins_before=place.num_wins,
        level=place.level,
        verdict=proposal.verdict,
        why=proposal.why,
        gain_percent=_percent(gain.value if gain else None),
        low_percent=_percent(gain.low if gain else None),
        high_percent=_percent(gain.high if gain else None),
        attempts=proposal.budget.num_begun,
        budget_is_spent=proposal.is_spent,
        change_throughputs=proposal.runs.change,
        baseline_throughputs=proposal.runs.baseline,
        failures=tuple(failure.line for failure in failures),
        error=proposal.why if proposal.baseline_failed else None,
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _planned_answer(
    asked: Asked,
    name: str,
    way: LocalSweep,
    trials: dict[JudgedSide, TrialSpec],
    place: SeriesPlace,
    engine: sa.Engine,
) -> JudgeAnswer:
    change, baseline = trials[JudgedSide.CHANGE], trials[JudgedSide.BASELINE]
    earlier: tuple[float, ...] = ()
    if not asked.fresh:
        since = datetime.now(UTC) - EARLIER_WITHIN
        completed = completed_repeats(
            engine, [baseline.trial_id], way.machine.key, way.software_key, since=since
        )
        repeats = completed.get(baseline.trial_id, ())[-MOST_EARLIER:]
        earlier = tuple(repeat.throughput for repeat in repeats)
    estimate = Estimate.of(engine, way.machine.key)
    return JudgeAnswer(
        baseline=baseline.trial_id,
        change=change.trial_id,
        baseline_expected_s=estimate.expected_s(baseline),
        change_expected_s=estimate.expected_s(change),
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
        other_work=tuple(axis for axis in _WORK if change.axes[axis] != baseline.axes[axis]),
        sweep=name,
    )


def _baseline_grid(asked: Asked) -> tuple[Config, Grid]:
    """Refuse what is no change of a trial, and compose the baseline as `from=TRIAL` would."""
    for change in asked.changes:
        if "=" not in change and not change.startswith("~"):
            raise SweepRefusedError(
                f"{change}: wanted a change as AXIS=VALUE; axes are in {typed('sweep')} --help"
            )
        if key_of(change) == "store.url":
            raise SweepRefusedError(f"{change}: the database is named by --db")
        if _group(change) in WHOLE_SWEEP and _group(change) not in _OF_BOTH:
            raise SweepRefusedError(
                f"{change}: no change of a trial that can be judged; both sides run with one "
                f"{_group(change)}"
            )
    settings = [change for change in asked.changes if _group(change) in _OF_BOTH]
    if len(settings) == len(asked.changes):
        raise SweepRefusedError("no change: name what differs from the baseline, as batch_size=128")
    grid = _grid([f"{SETTING}={asked.baseline}", *settings])
    config = grid.composer.base
    config.sweep.invalid = Invalid["error"]
    return config, grid


def _two_trials(asked: Asked, way: LocalSweep, baseline_grid: Grid) -> dict[JudgedSide, TrialSpec]:
    """Resolve both. Raises SweepRefusedError or StoreError."""
    baseline = _resolved(baseline_grid, way)
    try:
        way.check([baseline])
    except SweepRefusedError as error:
        raise SweepRefusedError(
            f"--baseline {asked.baseline}: {error}; a command runs in the current folder: judge in "
            "that of the sweep that measured the baseline, with the paths of the change from there"
        ) from error
    change = _resolved(_grid([f"{SETTING}={asked.baseline}", *asked.changes]), way)
    # an edit of the user's own model may be another file, as a program may be
    ours = [spec for spec in (baseline, change) if spec.engine != Engine.command]
    if baseline.model != change.model and not all(spec.model_digest for spec in ours):
        raise SweepRefusedError(
            f"model={change.model}: the baseline trains {baseline.model}, and the throughput of "
            "another model is no gain; change how it is trained, or name a baseline of "
            f"{change.model}"
        )
    if change.engine == Engine.command:
        check_programs([change])  # of whatever code: its numbers are its own trial's
    if change.trial_id == baseline.trial_id:
        raise SweepRefusedError(
            f"{joined(asked.changes)}: changes nothing of trial {baseline.trial_id[:8]}; change an "
            "axis, or have command.run= name another copy of your program"
        )
    return {JudgedSide.CHANGE: change, JudgedSide.BASELINE: baseline}


def _group(change: str) -> str:
    return key_of(change).replace("/", ".").partition(".")[0]


def _grid(arguments: list[str]) -> Grid:
    """Have Hydra compose what a sweep would run."""
    grids: list[Grid] = []
    before, sys.argv = sys.argv, sys.argv[:1]  # Hydra reads it
    try:
        import_ours("sweep").run(arguments, lambda grid, *_: grids.append(grid))
    except SweepRefusedError as error:
        raise SweepRefusedError(str(error).replace(f"{SETTING}=", "--baseline ", 1)) from error
    finally:
        sys.argv = before
    return grids[0]


def _resolved(grid: Grid, way: LocalSweep) -> TrialSpec:
    sweep = way.config.sweep
    specs, _ = resolve_grid(grid.cells, grid.composer.compose, way.inventory, sweep)
    if len(specs) > 1:
        raise SweepRefusedError(
            f"{len(specs)} trials; a proposal is one change, with one value per axis: judge one "
            "after another"
        )
    return specs[0]


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

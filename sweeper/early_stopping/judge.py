"""Judges one proposal: plans its two trials, runs them in turn, and keeps the verdict."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from conf.schema import Config, Invalid
from scalemark.abilities import LOCAL
from scalemark.host.own_code import import_ours, typed
from scalemark.records.axes import Engine
from scalemark.records.measurement import Outcome
from scalemark.records.overrides import SETTING, key_of
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import storable
from scalemark.text import untrusted, wording
from store import database, judgements
from store.errors import StoreError
from store.judgements import JudgedProposal, NewJudgement
from store.reading.earlier import (
    CompletedRepeat,
    completed_repeats,
    completed_repeats_of_sweep,
    printed_by,
)
from store.reading.queries import losses_apart
from sweeper import SweepRefusedError
from sweeper.early_stopping import rule as stopping_rule
from sweeper.early_stopping.contests import Contest, ReadResults
from sweeper.early_stopping.metric import THROUGHPUT, Metric, lacking, values_of
from sweeper.early_stopping.rule import Aim, ChangeVerdict, JudgedSide, Kept, Ruling, Runs
from sweeper.grid.compose import WHOLE_SWEEP, Grid
from sweeper.grid.plan import Plan, PlannedTrial, check, check_folders, resolve_grid
from sweeper.grid.plan_view import Estimate, Planned, machine_line
from sweeper.sweep import Sweep, open_writer

SCHEMA_VERSION = 1
"""Of the JSON: it rises when a field goes or means something else, not when one is added."""

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
    series: str
    fresh: bool  # look at no earlier runs
    metric: Metric
    kept: tuple[Kept, ...]  # without pairs
    aa: bool  # the baseline runs against itself

    @property
    def words(self) -> str:
        """Return the change, and how it is judged, as on the command line, without secrets."""
        words = list(self.changes)
        if self.metric.name != THROUGHPUT:
            words += ["--metric", self.metric.name, *["--lower"] * self.metric.lower]
        for each in self.kept:
            words += ["--keep", f"{each.name}={100 * each.limit:g}%"]
        words += ["--aa"] * self.aa
        return storable(untrusted.without_secrets(untrusted.command_line(words)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAnswer:
    """Facts about a proposal, as `--json` prints them; those with a default come of running it."""

    schema_version: int = SCHEMA_VERSION
    verdict: ChangeVerdict | None = None
    why: str = ""  # where the runs do not say it
    metric: str
    lower: bool  # less of it is better
    gain_percent: float | None = None  # above 0 it is better: of a metric that falls, lower by that
    low_percent: float | None = None  # of the interval that holds the gain at all looks
    high_percent: float | None = None
    attempts: int = 0
    budget_is_spent: bool = False  # it ended without a verdict
    spread_percent: float | None = None  # a standard deviation, of one run
    change_values: tuple[float, ...] = ()  # of the metric
    baseline_values: tuple[float, ...] = ()
    kept: tuple[Kept, ...]
    failures: tuple[str, ...] = ()  # a line per run that did not complete
    parity: str = ""  # how the loss of a faster change differs; empty where it does not
    baseline_failed: bool = False  # nothing can be judged beside it
    baseline: str  # id of a trial
    change: str
    expected_s: float | None  # of an attempt of the baseline, by earlier ones
    changes: tuple[str, ...]  # as given, without secrets
    budget: int  # attempts
    least_attempts: int  # of a win
    margin_percent: float  # the gain that matters
    earlier_values: tuple[float, ...]  # of the baseline
    series: str
    number: int  # of the proposal in its series
    wins_before: int
    false_wins_percent: float  # of the series' wins
    other_work: tuple[str, ...]  # axes by which the two train on different things
    sweep: str
    machine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProposal:
    """A proposal that can be judged."""

    asked: Asked
    sweep: Sweep
    trials: Mapping[JudgedSide, TrialSpec]
    answer: JudgeAnswer  # as far as it is known before anything runs


class Proposal(Contest):
    """A contest of a change and its baseline: one of the two runs after the other, until the
    verdict is sure or the budget is spent. A trial against itself spends the budget.
    """

    may_use_all = True

    def __init__(
        self,
        *,
        trials: Mapping[JudgedSide, str],  # their ids
        aim: Aim,
        budget: int,  # attempts
        metric: Metric,
        kept: tuple[Kept, ...],
        runs: Runs,  # at first those from earlier
        read: ReadResults,
    ) -> None:
        self.trial_ids = tuple(dict.fromkeys(trials.values()))
        self.runs, self.kept = runs, kept
        self.change_values: Sequence[float] = ()  # of the metric
        self.baseline_values: Sequence[float] = ()
        self.num_attempts = 0  # that ended
        self.verdict: ChangeVerdict | None = None
        self.why = ""  # where the runs do not say it
        self.baseline_failed = False
        self.is_spent = False  # the budget ended it
        self._trials, self._aim, self._read, self._budget = trials, aim, read, budget
        self._metric, self._names = metric, [metric.name, *(each.name for each in kept)]

    @property
    def num_completed(self) -> Mapping[str, int]:
        return {}  # runs take turns: there are no rounds

    def ended(self, trial_id: str, final: Outcome | None) -> None:
        self.num_attempts += 1
        if final in (None, Outcome.COMPLETED, Outcome.INTERRUPTED):
            return
        is_baseline = trial_id == self._trials[JudgedSide.BASELINE]
        self._fail(JudgedSide.BASELINE if is_baseline else JudgedSide.CHANGE, f"ended as {final}")

    def learn(self) -> None:
        completed = self._read(self.trial_ids)
        sides = {side: completed.get(self._trials[side], ()) for side in JudgedSide}
        if len(self.trial_ids) == 1:
            sides = _dealt(completed.get(self.trial_ids[0], ()))
        change, baseline = sides[JudgedSide.CHANGE], sides[JudgedSide.BASELINE]
        self.change_values = values_of(change, self._metric.name)
        self.baseline_values = values_of(baseline, self._metric.name)
        self.runs = replace(
            self.runs,
            change=self._metric.speeds(self.change_values),
            baseline=self._metric.speeds(self.baseline_values),
        )
        kept = []
        for each in self.kept:
            pairs = self.runs.pairs(values_of(change, each.name), values_of(baseline, each.name))
            kept.append(replace(each, pairs=pairs))
        self.kept = tuple(kept)
        for side in JudgedSide:
            problem = lacking(sides[side], self._names)
            if problem and not self.verdict:
                self._fail(side, f"has {problem}")
        if self.verdict:
            return
        items = {repeat.item for repeat in (*change, *baseline)}
        if len(items) > 1 and THROUGHPUT in self._names:
            self._end(
                ChangeVerdict.FAILED, f"one side counts {' and the other '.join(sorted(items))}"
            )
        elif len(self.trial_ids) == 2:
            self.verdict = stopping_rule.decide(self.runs, self._aim, self.kept)

    def rule(self, num_left: Mapping[str, int]) -> Ruling:
        """Want one run of the next side, as long as there is no verdict."""
        wanted = dict.fromkeys(self.trial_ids, 0)
        side = stopping_rule.next_side(self.runs)
        if not self.verdict and self.num_attempts >= self._budget:
            self._spend()
        if not self.verdict and not num_left[self._trials[side]]:
            why = f"no run of the {side} is left, as completed ones have no number"
            self._end(ChangeVerdict.UNDECIDED, why)
        if not self.verdict:
            wanted[self._trials[side]] = 1
        return Ruling(wanted=wanted, out=dict.fromkeys(self.trial_ids, f"judge: {self.verdict}"))

    def result(self, ruling: Ruling, num_spared: int) -> str:
        return ""  # `judge` prints the answer

    def _spend(self) -> None:
        """Answer after the last attempt."""
        if len(self.trial_ids) == 1:
            self.verdict = stopping_rule.noise_of(self.runs, self._aim, self.kept)
            return
        self.is_spent = True
        self._end(ChangeVerdict.UNDECIDED, "the budget is spent")

    def _fail(self, side: JudgedSide, why: str) -> None:
        self.baseline_failed = side is JudgedSide.BASELINE or len(self.trial_ids) == 1
        verdict = ChangeVerdict.UNDECIDED if self.baseline_failed else ChangeVerdict.FAILED
        self._end(verdict, f"the {side} {why}")

    def _end(self, verdict: ChangeVerdict, why: str) -> None:
        self.verdict, self.why = verdict, why


def _dealt(repeats: Sequence[CompletedRepeat]) -> dict[JudgedSide, tuple[CompletedRepeat, ...]]:
    """Deal the repeats of one trial to both sides, in turns."""
    runs = Runs()
    dealt: dict[JudgedSide, tuple[CompletedRepeat, ...]] = dict.fromkeys(JudgedSide, ())
    for repeat in repeats:
        side = stopping_rule.next_side(runs)
        runs = runs.with_run(side, 1.0)
        dealt[side] += (repeat,)
    return dealt


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
        sweep = Sweep(config, name)
        trials = _two_trials(asked, sweep, baseline_grid)
    engine = database.open_for_reading(asked.db)
    known = printed_by(engine, trials[JudgedSide.BASELINE].trial_id)
    for name in (asked.metric.name, *(each.name for each in asked.kept)):
        if known is not None and name not in (THROUGHPUT, *known):
            there = ", ".join([THROUGHPUT, *sorted(known)])
            raise SweepRefusedError(
                f"{name}: no such number in trial {asked.baseline}; it has {there}"
            )
    answer = _planned_answer(asked, sweep, trials, engine)
    if asked.budget < answer.least_attempts:
        raise SweepRefusedError(
            f"--budget {asked.budget}: no gain, however large, can win with fewer than "
            f"{answer.least_attempts} attempts (proposal {answer.number} of its series, which "
            f"allows {100 * asked.allowed:g} % false wins); give as many or more"
        )
    return PlannedProposal(asked=asked, sweep=sweep, trials=trials, answer=answer)


def judge(planned: PlannedProposal, command: Sequence[str]) -> JudgeAnswer:
    """Run the proposal until the verdict is sure; `command` are its words, for the database.

    Raises SweepRefusedError or StoreError.
    """
    asked, sweep, trials = planned.asked, planned.sweep, planned.trials
    settings = sweep.config.sweep
    earlier = Runs(earlier=asked.metric.speeds(planned.answer.earlier_values))
    num_runs = stopping_rule.most_runs(earlier, asked.budget)
    settings.rerun = True
    settings.repeats = asked.budget if asked.aa else max(num_runs.values())
    settings.reason = f"judge {asked.words}"
    ids = {side: spec.trial_id for side, spec in trials.items()}
    with ExitStack() as stack:
        writer = open_writer(asked.db)
        stack.callback(writer.close)
        place = _begin(planned, writer.engine)
        proposal = Proposal(
            trials=ids,
            aim=Aim(level=place.level, margin=asked.metric.gain(asked.margin)),
            budget=asked.budget,
            metric=asked.metric,
            kept=asked.kept,
            runs=earlier,
            read=lambda trial_ids: completed_repeats_of_sweep(writer.engine, trial_ids, sweep.name),
        )
        to_run = []
        for side, spec in trials.items():
            to_run.append(PlannedTrial(spec=spec, num_repeats=num_runs[side]))
        if asked.aa:
            to_run = [PlannedTrial(spec=trials[JudgedSide.BASELINE], num_repeats=asked.budget)]
        given = Planned(
            plan=Plan(trials=tuple(to_run), left_out=()),
            estimate=Estimate.of(writer.engine, sweep.machine.key),
            contests=(proposal,),
        )
        runner = sweep.runner(given, writer, stack, command)
        runner.run()
        if runner.failure is not None:
            raise StoreError(str(runner.failure))
        proposal.verdict = proposal.verdict or ChangeVerdict.INTERRUPTED
        parity = _parity(planned, proposal, writer.engine)
        judged = _judged(proposal)
        if not asked.aa:
            judgements.end(writer.engine, asked.series, place.number, judged, datetime.now(UTC))
        writer.settle()
    return replace(
        planned.answer,
        number=place.number,
        wins_before=place.num_wins,
        verdict=proposal.verdict,
        why=proposal.why,
        gain_percent=asked.metric.percent(judged.gain),
        low_percent=asked.metric.percent(judged.gain_low),
        high_percent=asked.metric.percent(judged.gain_high),
        attempts=proposal.num_attempts,
        budget_is_spent=proposal.is_spent,
        spread_percent=Metric().percent(stopping_rule.spread_of(proposal.runs)),
        change_values=tuple(proposal.change_values),
        baseline_values=tuple(proposal.baseline_values),
        kept=proposal.kept,
        failures=tuple(failure.line for failure in runner.ran.failures),
        baseline_failed=proposal.baseline_failed,
        parity=parity,
    )


def _parity(planned: PlannedProposal, proposal: Proposal, engine: sa.Engine) -> str:
    """Say that a faster change trains otherwise, where both sides do the same work in a step."""
    is_alike = len({spec.examples_per_step for spec in planned.trials.values()}) == 1
    is_alike = is_alike and planned.answer.metric == THROUGHPUT
    if proposal.verdict is not ChangeVerdict.BETTER or not is_alike or planned.answer.other_work:
        return ""
    ids = {side: spec.trial_id for side, spec in planned.trials.items()}
    completed = completed_repeats_of_sweep(engine, list(ids.values()), planned.sweep.name)
    attempts = []
    for side in (JudgedSide.CHANGE, JudgedSide.BASELINE):
        attempts.append([repeat.attempt_id for repeat in completed.get(ids[side], ())])
    return losses_apart(engine, *attempts)


def _begin(planned: PlannedProposal, engine: sa.Engine) -> judgements.SeriesPlace:
    """Write the proposal down, unless nothing can win, and return its place in the series. Raises
    StoreError.
    """
    if planned.asked.aa:
        return judgements.next_place(engine, planned.asked.series, planned.asked.allowed)
    new = NewJudgement(
        series=planned.asked.series,
        sweep=planned.sweep.name,
        baseline_trial=planned.trials[JudgedSide.BASELINE].trial_id,
        change_trial=planned.trials[JudgedSide.CHANGE].trial_id,
        change=planned.asked.words,
        margin=planned.asked.margin,
        allowed=planned.asked.allowed,
        started_at=datetime.now(UTC),
    )
    return judgements.begin(engine, new)


def _judged(proposal: Proposal) -> JudgedProposal:
    assert proposal.verdict is not None
    gain = stopping_rule.gain_of(proposal.runs)
    return JudgedProposal(
        verdict=proposal.verdict,
        num_attempts=proposal.num_attempts,
        gain=gain.value if gain else None,
        gain_low=gain.low if gain else None,
        gain_high=gain.high if gain else None,
    )


def _planned_answer(
    asked: Asked, sweep: Sweep, trials: Mapping[JudgedSide, TrialSpec], engine: sa.Engine
) -> JudgeAnswer:
    change, baseline = trials[JudgedSide.CHANGE], trials[JudgedSide.BASELINE]
    place = judgements.next_place(engine, asked.series, asked.allowed)
    earlier: tuple[float, ...] = ()
    if not asked.fresh and not asked.aa:
        since = datetime.now(UTC) - EARLIER_WITHIN
        completed = completed_repeats(
            engine, [baseline.trial_id], sweep.machine.key, sweep.software_key, since=since
        )
        repeats = completed.get(baseline.trial_id, ())[-stopping_rule.MOST_EARLIER :]
        earlier = tuple(values_of(repeats, asked.metric.name))
    runs = Runs(earlier=asked.metric.speeds(earlier))
    return JudgeAnswer(
        baseline=baseline.trial_id,
        change=change.trial_id,
        expected_s=Estimate.of(engine, sweep.machine.key).expected_s(baseline),
        changes=tuple(untrusted.masked(change) for change in asked.changes),
        budget=asked.budget,
        least_attempts=stopping_rule.least_attempts(runs, place.level),
        metric=asked.metric.name,
        lower=asked.metric.lower,
        kept=asked.kept,
        margin_percent=100 * asked.margin,
        earlier_values=earlier,
        series=asked.series,
        number=place.number,
        wins_before=place.num_wins,
        false_wins_percent=100 * asked.allowed,
        other_work=tuple(axis for axis in _WORK if change.axes[axis] != baseline.axes[axis]),
        sweep=sweep.name,
        machine=machine_line(sweep.machine, sweep.inventory),
    )


def _baseline_grid(asked: Asked) -> tuple[Config, Grid]:
    """Refuse what is no change of a trial, and compose the baseline as `from=TRIAL` would."""
    settings = []
    for change in asked.changes:
        if "=" not in change and not change.startswith("~"):
            raise SweepRefusedError(
                f"{change}: wanted a change as AXIS=VALUE; axes are in {typed('sweep')} --help all"
            )
        if key_of(change) == "store.url":
            raise SweepRefusedError(f"{change}: the database is named by --db")
        group = key_of(change).replace("/", ".").partition(".")[0]
        if group in _OF_BOTH:
            settings.append(change)
        elif group in WHOLE_SWEEP:
            raise SweepRefusedError(
                f"{change}: no change of a trial that can be judged; both sides run with one "
                f"{group}"
            )
    if asked.aa and len(settings) < len(asked.changes):
        raise SweepRefusedError(
            f"--aa: runs the baseline against itself; leave out {wording.joined(asked.changes)}"
        )
    if len(settings) == len(asked.changes) and not asked.aa:
        raise SweepRefusedError("no change: name what differs from the baseline, as batch_size=128")
    grid = _grid([f"{SETTING}={asked.baseline}", *settings])
    config = grid.composer.base
    config.sweep.invalid = Invalid["error"]
    return config, grid


def _two_trials(asked: Asked, sweep: Sweep, baseline_grid: Grid) -> Mapping[JudgedSide, TrialSpec]:
    """Resolve both. Raises SweepRefusedError or StoreError."""
    baseline = _resolved(baseline_grid, sweep)
    try:
        sweep.check([baseline])
    except SweepRefusedError as error:
        raise SweepRefusedError(
            f"--baseline {asked.baseline}: {error}; a command runs in the current folder: judge in "
            "that of the sweep that measured the baseline, with the paths of the change from there"
        ) from error
    if asked.aa:
        return {JudgedSide.CHANGE: baseline, JudgedSide.BASELINE: baseline}
    change = _resolved(_grid([f"{SETTING}={asked.baseline}", *asked.changes]), sweep)
    # an edit of the user's own model may be another file, as a program may be
    ours = [spec for spec in (baseline, change) if spec.engine != Engine.command]
    if baseline.model != change.model and not all(spec.model_digest for spec in ours):
        raise SweepRefusedError(
            f"model={change.model}: the baseline trains {baseline.model}, and the throughput of "
            "another model is no gain; change how it is trained, or name a baseline of "
            f"{change.model}"
        )
    if change.engine == Engine.command:
        sweep.software_of([change])  # of whatever code: its numbers are its own trial's
    if change.trial_id == baseline.trial_id:
        raise SweepRefusedError(
            f"{wording.joined(asked.changes)}: changes nothing of trial {baseline.trial_id[:8]}; "
            "change an axis, or have command.run= name another copy of your program"
        )
    return {JudgedSide.CHANGE: change, JudgedSide.BASELINE: baseline}


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


def _resolved(grid: Grid, sweep: Sweep) -> TrialSpec:
    settings = sweep.config.sweep
    specs, _ = resolve_grid(grid.cells, grid.composer.compose, sweep.inventory, settings)
    if len(specs) > 1:
        raise SweepRefusedError(
            f"{len(specs)} trials; a proposal is one change, with one value per axis: judge one "
            "after another"
        )
    return specs[0]


@contextmanager
def _database(url: str) -> Iterator[None]:
    """Have a sweep find its database where the user named it; a URL is no word of Hydra's."""
    before = os.environ.get(database.DATABASE_VARIABLE)
    os.environ[database.DATABASE_VARIABLE] = url
    try:
        yield
    finally:
        del os.environ[database.DATABASE_VARIABLE]
        if before is not None:
            os.environ[database.DATABASE_VARIABLE] = before

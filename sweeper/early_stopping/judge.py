"""Judges one proposal: plans its two trials, runs them in turn, and keeps the verdict."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from conf.schema import Config
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
from sweeper.early_stopping.rule import Aim, ChangeVerdict, JudgedSide, KeptMetric, Ruling, Runs
from sweeper.grid.compose import WHOLE_SWEEP, Grid
from sweeper.grid.plan import Plan, PlannedTrial, check, check_folders, resolve_grid
from sweeper.grid.plan_view import Estimate, Planned, machine_line
from sweeper.sweep import Sweep, open_writer

SCHEMA_VERSION = 2
"""Of the JSON: it rises when a field goes or means something else, not when one is added."""

EARLIER_WITHIN = timedelta(hours=2)
"""Older runs of the baseline are left out: a machine is not the same for long."""

SPENT = "the budget is spent"
_OF_BOTH = ("launcher", "store")  # settings that both trials run with
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
    metric: Metric
    kept: tuple[KeptMetric, ...]  # without pairs
    aa: bool  # the baseline runs against itself

    @property
    def masked_changes(self) -> list[str]:
        """Return the changes without secrets."""
        return list(map(untrusted.masked, self.changes))

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
class PlannedProposal:
    """A proposal that can be judged."""

    asked: Asked
    sweep: Sweep
    trials: Mapping[JudgedSide, TrialSpec]
    place: judgements.SeriesPlace
    earlier: tuple[float, ...]  # values of the metric in earlier runs of the baseline

    @property
    def ids(self) -> dict[JudgedSide, str]:
        return {side: spec.trial_id for side, spec in self.trials.items()}

    @property
    def runs(self) -> Runs:
        return Runs(earlier=self.asked.metric.speeds(self.earlier))

    @property
    def least_attempts(self) -> int:
        """Return after how many attempts it can win."""
        return stopping_rule.least_attempts(self.runs, self.place.level)

    @property
    def other_work(self) -> list[str]:
        """Return the axes by which the two train on different things."""
        change, baseline = self.trials[JudgedSide.CHANGE], self.trials[JudgedSide.BASELINE]
        return [axis for axis in _WORK if change.axes[axis] != baseline.axes[axis]]


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
        kept: tuple[KeptMetric, ...],
        runs: Runs,  # at first those from earlier
        read: ReadResults,
    ) -> None:
        self.trial_ids = tuple(dict.fromkeys(trials.values()))
        self.runs, self.kept = runs, kept
        self.completed: dict[JudgedSide, tuple[CompletedRepeat, ...]]
        self.completed = dict.fromkeys(JudgedSide, ())
        self.num_attempts = 0  # that ended
        self.verdict: ChangeVerdict | None = None
        self.why = ""  # where the runs do not say it
        self.baseline_failed = False  # nothing can be judged beside it
        self._trials, self._aim, self._read = trials, aim, read
        self._budget, self._metric = budget, metric

    @property
    def num_completed(self) -> Mapping[str, int]:
        return {}  # runs take turns: there are no rounds

    def values(self, side: JudgedSide) -> list[float]:
        """Return the metric of the completed runs of a side."""
        return values_of(self.completed[side], self._metric.name)

    def ended(self, trial_id: str, final: Outcome | None) -> None:
        self.num_attempts += 1
        if final in (None, Outcome.COMPLETED, Outcome.INTERRUPTED):
            return
        is_baseline = trial_id == self._trials[JudgedSide.BASELINE]
        self._fail(JudgedSide.BASELINE if is_baseline else JudgedSide.CHANGE, f"ended as {final}")

    def learn(self) -> None:
        completed = self._read(self.trial_ids)
        self.completed = {side: completed.get(self._trials[side], ()) for side in JudgedSide}
        if len(self.trial_ids) == 1:
            self.completed = _dealt(completed.get(self.trial_ids[0], ()))
        change, baseline = (self.completed[side] for side in JudgedSide)
        self.runs = replace(
            self.runs,
            change=self._metric.speeds(self.values(JudgedSide.CHANGE)),
            baseline=self._metric.speeds(self.values(JudgedSide.BASELINE)),
        )
        kept = []
        for each in self.kept:
            pairs = self.runs.pairs(values_of(change, each.name), values_of(baseline, each.name))
            kept.append(replace(each, pairs=pairs))
        self.kept = tuple(kept)
        names = [self._metric.name, *(each.name for each in kept)]
        for side in JudgedSide:
            problem = lacking(self.completed[side], names)
            if problem and not self.verdict:
                self._fail(side, f"has {problem}")
        if self.verdict:
            return
        items = {repeat.item for repeat in (*change, *baseline)}
        if len(items) > 1 and THROUGHPUT in names:
            self.verdict = ChangeVerdict.FAILED
            self.why = f"one side counts {' and the other '.join(sorted(items))}"
        elif len(self.trial_ids) == 2:
            self.verdict = stopping_rule.decide(self.runs, self._aim, self.kept)

    def rule(self, num_left: Mapping[str, int]) -> Ruling:
        """Want one run of the next side, as long as there is no verdict."""
        wanted = dict.fromkeys(self.trial_ids, 0)
        side = stopping_rule.next_side(self.runs)
        if self.verdict:
            pass
        elif self.num_attempts >= self._budget and len(self.trial_ids) == 1:
            self.verdict = stopping_rule.noise_of(self.runs, self._aim, self.kept)
        elif self.num_attempts >= self._budget:
            self.verdict, self.why = ChangeVerdict.UNDECIDED, SPENT
        elif not num_left[self._trials[side]]:
            self.verdict = ChangeVerdict.UNDECIDED
            self.why = f"no run of the {side} is left, as completed ones have no number"
        else:
            wanted[self._trials[side]] = 1
        return Ruling(wanted=wanted, out=dict.fromkeys(self.trial_ids, f"judge: {self.verdict}"))

    def _fail(self, side: JudgedSide, why: str) -> None:
        self.baseline_failed = side is JudgedSide.BASELINE or len(self.trial_ids) == 1
        self.verdict = ChangeVerdict.UNDECIDED if self.baseline_failed else ChangeVerdict.FAILED
        self.why = f"the {side} {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAnswer:
    """The plan of a proposal, and what became of it."""

    planned: PlannedProposal
    proposal: Proposal | None = None  # None before it ran
    failures: tuple[str, ...] = ()  # a line per run that did not complete
    parity: str = ""  # how the loss of a faster change differs; empty where it does not

    @property
    def gain_percents(self) -> list[float | None]:
        """Return the gain of the metric, and the interval that holds it at all looks; above 0 it
        is better.
        """
        gain = stopping_rule.gain_of(self.proposal.runs) if self.proposal else None
        shares = [gain.value, gain.low, gain.high] if gain else [None] * 3
        return list(map(self.planned.asked.metric.percent, shares))

    @property
    def spread_percent(self) -> float | None:
        """Return the standard deviation of one run."""
        runs = self.proposal.runs if self.proposal else Runs()
        return Metric().percent(stopping_rule.spread_of(runs))

    def facts(self) -> dict[str, object]:
        """Return what `--json` has of it."""
        planned, asked = self.planned, self.planned.asked
        facts: dict[str, object] = {
            "schema_version": SCHEMA_VERSION,
            "verdict": None,
            "metric": asked.metric.name,
            "lower": asked.metric.lower,
            "kept": asked.kept,
            "changes": asked.masked_changes,
            "budget": asked.budget,
            "margin_percent": 100 * asked.margin,
            "least_attempts": planned.least_attempts,
            "earlier_values": planned.earlier,
            "number": planned.place.number,
            "wins_before": planned.place.num_wins,
            "other_work": planned.other_work,
            "sweep": planned.sweep.name,
            "machine": machine_line(planned.sweep.machine, planned.sweep.inventory),
            **{str(side): trial_id for side, trial_id in planned.ids.items()},
        }
        proposal = self.proposal
        if proposal is None:
            return facts
        gain, low, high = self.gain_percents
        return facts | {
            "verdict": proposal.verdict,
            "why": proposal.why,
            "gain_percent": gain,
            "low_percent": low,
            "high_percent": high,
            "spread_percent": self.spread_percent,
            "attempts": proposal.num_attempts,
            "budget_is_spent": proposal.why == SPENT,
            "change_values": proposal.values(JudgedSide.CHANGE),
            "baseline_values": proposal.values(JudgedSide.BASELINE),
            "kept": proposal.kept,
            "failures": self.failures,
            "parity": self.parity,
        }


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
    baseline = trials[JudgedSide.BASELINE].trial_id
    known = printed_by(engine, baseline)
    for name in (asked.metric.name, *(each.name for each in asked.kept)):
        if known is not None and name not in (THROUGHPUT, *known):
            there = ", ".join([THROUGHPUT, *sorted(known)])
            raise SweepRefusedError(
                f"{name}: no such number in trial {asked.baseline}; it has {there}"
            )
    earlier: tuple[float, ...] = ()
    if not asked.aa:
        since = datetime.now(UTC) - EARLIER_WITHIN
        completed = completed_repeats(
            engine, [baseline], sweep.machine.key, sweep.software_key, since=since
        )
        repeats = completed.get(baseline, ())[-stopping_rule.MOST_EARLIER :]
        earlier = tuple(values_of(repeats, asked.metric.name))
    planned = PlannedProposal(
        asked=asked,
        sweep=sweep,
        trials=trials,
        place=judgements.next_place(engine),
        earlier=earlier,
    )
    if asked.budget < planned.least_attempts:
        raise SweepRefusedError(
            f"--budget {asked.budget}: wanted {planned.least_attempts} or more; with fewer "
            f"attempts no gain could win (proposal {planned.place.number} of this database, which "
            f"allows {100 * planned.place.allowed:g} % false wins)"
        )
    return planned


def judge(planned: PlannedProposal, command: Sequence[str]) -> JudgeAnswer:
    """Run the proposal until the verdict is sure; `command` are its words, for the database.

    Raises SweepRefusedError or StoreError.
    """
    asked, sweep = planned.asked, planned.sweep
    trials = planned.trials
    most = stopping_rule.most_runs(planned.runs, asked.budget)
    to_run = tuple(PlannedTrial(spec=trials[side], num_repeats=most[side]) for side in trials)
    if asked.aa:
        baseline = trials[JudgedSide.BASELINE]
        to_run = (PlannedTrial(spec=baseline, num_repeats=asked.budget),)
    settings = sweep.config.sweep
    settings.rerun = True
    settings.repeats = max(trial.num_repeats for trial in to_run)
    sweep.reason = f"judge {asked.words}"
    with ExitStack() as stack:
        writer = open_writer(asked.db)
        stack.callback(writer.close)
        planned = replace(planned, place=_begin(planned, writer.engine))
        proposal = Proposal(
            trials=planned.ids,
            aim=Aim(level=planned.place.level, margin=asked.metric.gain(asked.margin)),
            budget=asked.budget,
            metric=asked.metric,
            kept=asked.kept,
            runs=planned.runs,
            read=lambda trial_ids: completed_repeats_of_sweep(writer.engine, trial_ids, sweep.name),
        )
        given = Planned(
            plan=Plan(trials=to_run, left_out=()),
            estimate=Estimate.of(writer.engine, sweep.machine.key),
            contests=(proposal,),
        )
        runner = sweep.runner(given, writer, stack, command)
        runner.run()
        if runner.failure is not None:
            raise StoreError(str(runner.failure))
        proposal.verdict = proposal.verdict or ChangeVerdict.INTERRUPTED
        parity = _parity(planned, proposal, writer.engine)
        _end(planned, proposal, writer.engine)
        writer.settle()
    return JudgeAnswer(
        planned=planned,
        proposal=proposal,
        failures=tuple(failure.line for failure in runner.ran.failures),
        parity=parity,
    )


def _parity(planned: PlannedProposal, proposal: Proposal, engine: sa.Engine) -> str:
    """Say that a faster change trains otherwise, where both sides do the same work in a step."""
    is_alike = len({spec.examples_per_step for spec in planned.trials.values()}) == 1
    is_alike = is_alike and planned.asked.metric.name == THROUGHPUT
    if proposal.verdict is not ChangeVerdict.BETTER or not is_alike or planned.other_work:
        return ""
    attempts = []
    for side in JudgedSide:
        attempts.append([repeat.attempt_id for repeat in proposal.completed[side]])
    return losses_apart(engine, *attempts)


def _begin(planned: PlannedProposal, engine: sa.Engine) -> judgements.SeriesPlace:
    """Write the proposal down, unless nothing can win, and return its place. Raises StoreError."""
    if planned.asked.aa:
        return judgements.next_place(engine)
    return judgements.begin(
        engine,
        sweep=planned.sweep.name,
        baseline_trial=planned.ids[JudgedSide.BASELINE],
        change_trial=planned.ids[JudgedSide.CHANGE],
        change=planned.asked.words,
        margin=planned.asked.margin,
        started_at=datetime.now(UTC),
    )


def _end(planned: PlannedProposal, proposal: Proposal, engine: sa.Engine) -> None:
    """Write down what became of the proposal, where it was written down."""
    if planned.asked.aa:
        return
    gain = stopping_rule.gain_of(proposal.runs)
    judgements.end(
        engine,
        planned.place.number,
        verdict=proposal.verdict,
        num_attempts=proposal.num_attempts,
        gain=gain and gain.value,
        gain_low=gain and gain.low,
        gain_high=gain and gain.high,
        ended_at=datetime.now(UTC),
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
    return grid.composer.base, grid


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
    if len(grid.cells) > 1:
        raise SweepRefusedError(
            f"{len(grid.cells)} trials; a proposal is one change, with one value per axis: judge "
            "one after another"
        )
    settings = sweep.config.sweep
    (spec,), _ = resolve_grid(grid.cells, grid.composer.compose, sweep.inventory, settings)
    return spec


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

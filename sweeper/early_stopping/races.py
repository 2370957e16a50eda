"""Sorts trials into races, and judges each by what its contenders have shown.

A race has trials that differ in their strategy alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

import sqlalchemy as sa

from scalemark.records.axes import Engine
from scalemark.records.measurement import unit_of
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import STRATEGY_AXES, TrialSpec, all_axes, strategy_axes, width_name
from scalemark.stats.welch import Spread
from scalemark.text.wording import fixed
from store.reading.earlier import CompletedRepeat, completed_repeats, last_attempt
from sweeper.early_stopping.observer import Contest, ReadResults, Saved
from sweeper.early_stopping.rule import Contender, Ruling, rule_race
from sweeper.planning.plan import Plan, varying_axes

RACING: Sequence[str] = STRATEGY_AXES
"""Axes in which the trials of a race differ."""


class RaceResults:
    """What the contenders of all races of a sweep have shown: how far processes differ is learned
    from all of them.
    """

    def __init__(self, most_repeats: int, read: ReadResults) -> None:
        self.most_repeats, self._read = most_repeats, read
        self.completed: dict[str, tuple[CompletedRepeat, ...]] = {}
        self._spreads: dict[str, Spread] = {}

    @property
    def spread(self) -> Spread:
        return Spread.sum(self._spreads.values())

    def learn(self, trial_ids: Sequence[str]) -> None:
        """Read again what these have shown. Raises StoreError."""
        completed = self._read(trial_ids)
        for trial_id in trial_ids:
            self.completed[trial_id] = completed.get(trial_id, ())
            self._spreads[trial_id] = Spread.of(self.speeds(trial_id))

    def speeds(self, trial_id: str) -> tuple[float, ...]:
        return tuple(repeat.throughput for repeat in self.completed[trial_id])


class Race(Contest):
    """A contest of which one trial shall be found the fastest."""

    may_use_all = False

    def __init__(
        self, label: str, trial_ids: tuple[str, ...], names: tuple[str, ...], results: RaceResults
    ) -> None:
        self.label = label  # for people: what tells the race from others
        self.trial_ids = trial_ids  # two or more
        self.names = names  # for people: what tells each from the others
        self.is_decided = False  # by what was completed before the sweep
        self._results = results
        self._failures: dict[str, str] = {}

    @property
    def num_completed(self) -> dict[str, int]:
        return {trial_id: len(self._results.speeds(trial_id)) for trial_id in self.trial_ids}

    def ended(self, trial_id: str, final: Outcome | None) -> None:
        if final not in (None, Outcome.COMPLETED):
            self._failures[trial_id] = str(final)

    def learn(self) -> None:
        self._results.learn(self.trial_ids)

    def rule(self, num_left: Mapping[str, int]) -> Ruling:
        contenders = []
        for trial_id, name in zip(self.trial_ids, self.names, strict=True):
            contender = Contender(
                trial_id=trial_id,
                name=name,
                speeds=self._results.speeds(trial_id),
                num_left=num_left.get(trial_id, 0),
                failure=self._failures.get(trial_id, ""),
            )
            contenders.append(contender)
        return rule_race(contenders, self._results.spread, self._results.most_repeats)

    def result(self, ruling: Ruling, num_spared: int) -> str:
        saved = Saved(num_run=sum(self.num_completed.values()), num_spared=num_spared)
        if ruling.leader is None:
            return f"race {self.label}: nothing of it completed; {saved}"
        names = dict(zip(self.trial_ids, self.names, strict=True))
        unit = unit_of(self._results.completed[ruling.leader][0].item)
        best = fixed(median(self._results.speeds(ruling.leader)), 1)
        standing = f"{names[ruling.leader]} leads with {best} {unit}"
        if ruling.tied:
            standing += f", in a tie with {', '.join(names[tied] for tied in ruling.tied)}"
        return f"race {self.label}: {standing}; {saved}"


def make_races(specs: Sequence[TrialSpec], most_repeats: int, read: ReadResults) -> list[Race]:
    """Sort trials into races in the order of the plan; trials without a rival are in none. Raises
    StoreError.
    """
    known = all_axes(specs)
    groups: dict[tuple[object, ...], list[TrialSpec]] = {}
    for spec in specs:
        shared = spec.axes
        for axis in _racing_axes(spec):
            shared.pop(axis, None)
        key = tuple(shared.get(axis) for axis in known)
        groups.setdefault(key, []).append(spec)
    crowds = [group for group in groups.values() if len(group) > 1]
    telling = varying_axes([group[0] for group in crowds])
    results = RaceResults(most_repeats, read)
    races: list[Race] = []
    racing_ids: list[str] = []
    for group in crowds:
        racing = _racing_axes(group[0])
        trial_ids = tuple(spec.trial_id for spec in group)
        label = _label(group[0], sorted(telling - racing))
        races.append(Race(label, trial_ids, _names(group, racing), results))
        racing_ids += trial_ids
    results.learn(racing_ids)
    return races


def _racing_axes(spec: TrialSpec) -> set[str]:
    """Return the axes of a strategy; of a program those free axes that its strategy is named by."""
    if spec.engine == Engine.command:
        return {*RACING, *strategy_axes(spec.axes)}
    return set(RACING)


def _label(spec: TrialSpec, telling: Sequence[str]) -> str:
    """Name the model, the GPU count, and what else tells races apart."""
    words = [f"{spec.model}-{width_name(spec.num_gpus, spec.hosts)}"]
    for axis in telling:
        if axis not in ("num_gpus", "hosts"):
            words.append(f"{axis}={spec.axes.get(axis)}")
    return " ".join(words)


def _names(specs: Sequence[TrialSpec], racing: set[str]) -> tuple[str, ...]:
    """Return the names of strategies, or of a program's the free axes that differ."""
    free = []
    for axis in sorted(racing.difference(STRATEGY_AXES)):
        if len({spec.axes.get(axis) for spec in specs}) > 1:
            free.append(axis)
    names = []
    for spec in specs:
        values = [f"{axis}={spec.axes.get(axis)}" for axis in free]
        names.append(" ".join(values) or spec.strategy)
    return tuple(names)


def results_in(
    engine: sa.Engine | None, machine_key: str, software_key: str, *, shares_host: bool, rerun: bool
) -> ReadResults:
    """Return a reader of those that count for a sweep on this machine and software, with `rerun`
    from now on; none without a database.
    """
    after = last_attempt(engine) if engine and rerun else 0

    def read(trial_ids: Sequence[str]) -> Mapping[str, tuple[CompletedRepeat, ...]]:
        if engine is None:
            return {}
        return completed_repeats(
            engine, trial_ids, machine_key, software_key, shares_host=shares_host, after=after
        )

    return read


def without_decided(plan: Plan, races: Sequence[Race]) -> Plan:
    """Leave out the repeats of races that what was completed earlier decides, and note these."""
    left = {trial.spec.trial_id: trial.num_repeats for trial in plan.trials}
    decided: set[str] = set()
    for race in races:
        race.is_decided = race.rule(left).is_over
        if race.is_decided:
            decided.update(race.trial_ids)
    trials = []
    for trial in plan.trials:
        if trial.num_repeats and trial.spec.trial_id in decided:
            trial = replace(trial, num_repeats=0, is_decided=True)
        trials.append(trial)
    return replace(plan, trials=tuple(trials))

"""Sorts trials into races, keeps what their contenders have shown, and plans what is left to run.

A race has trials that differ in what races alone: in the strategy, unless the user says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from statistics import median

import sqlalchemy as sa

from scalemark.records.axes import Engine
from scalemark.records.free_axes import bare_name, full_name
from scalemark.records.measurement import unit_of
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import STRATEGY_AXES, TrialSpec, all_axes, strategy_axes, width_name
from scalemark.stats.welch import Spread
from scalemark.text.wording import counted, fixed
from store.reading.earlier import CompletedRepeat, completed_repeats, last_attempt
from sweeper.errors import SweepRefusedError
from sweeper.grid.explain import nearest
from sweeper.planning.plan import Plan, PlannedTrial
from sweeper.race.judge import Contender, Ruling, judge

STRATEGY = "strategy"  # in sweep.race_over: variable_update, local_parameter_device and all_reduce
MOST_NAMED = 3  # trials without a rival
ReadResults = Callable[[Sequence[str]], Mapping[str, tuple[CompletedRepeat, ...]]]
"""Trial ids -> their completed repeats so far, whichever sweep made them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Trials of which one shall be found the fastest."""

    label: str  # for people: what they share, as far as it tells them from other races
    trial_ids: tuple[str, ...]  # two or more, in the order of the plan
    names: tuple[str, ...]  # for people: what tells each from the others


def sort_into_races(specs: Sequence[TrialSpec], race_over: Sequence[str]) -> list[Race]:
    """Keep the order of the plan, and leave out trials without a rival.

    `race_over` names free axes with or without their prefix. Raises SweepRefusedError for what is
    no axis of these trials.
    """
    known = all_axes(specs)
    racing: set[str] = set()
    for name in race_over:
        racing.update(STRATEGY_AXES if name == STRATEGY else (_full_name(name, specs, known),))
    shared = [name for name in known if name not in racing]
    groups: dict[tuple[object, ...], list[TrialSpec]] = {}
    for spec in specs:
        axes, own = spec.axes, _own(spec, race_over)
        key = tuple(None if name in own else axes.get(name) for name in shared)
        groups.setdefault(key, []).append(spec)
    crowds = [group for group in groups.values() if len(group) > 1]
    telling = _telling([group[0] for group in crowds], shared)
    return [
        Race(
            label=_label(group[0], telling, racing | set(_own(group[0], race_over))),
            trial_ids=tuple(spec.trial_id for spec in group),
            names=_names(group, racing | set(_own(group[0], race_over))),
        )
        for group in crowds
    ]


def _full_name(name: str, specs: Sequence[TrialSpec], known: Sequence[str]) -> str:
    if (full := full_name(name, known)) in known:
        return full
    bare = [bare_name(axis) for axis in known]
    differing = ", ".join(_varying(specs, known)) or "nothing"
    raise SweepRefusedError(
        f"sweep.race_over={name}: no axis of these trials; {nearest(name, bare)}They differ in "
        f"{differing}"
    )


def _own(spec: TrialSpec, race_over: Sequence[str]) -> tuple[str, ...]:
    """Return the free axes of which the strategy of a program is the name, where these race."""
    is_of_program = spec.engine == Engine.command
    return strategy_axes(spec.axes) if is_of_program and STRATEGY in race_over else ()


def _telling(specs: Sequence[TrialSpec], axes: Sequence[str]) -> list[str]:
    """Return axes that vary among trials of one model: what each model has of its own tells
    nothing.
    """
    by_model: dict[str, list[TrialSpec]] = {}
    for spec in specs:
        by_model.setdefault(spec.model, []).append(spec)
    found: set[str] = set()
    for of_model in by_model.values():
        found.update(_varying(of_model, axes))
    return [axis for axis in axes if axis in found]


def _varying(specs: Sequence[TrialSpec], axes: Sequence[str]) -> list[str]:
    return [axis for axis in axes if len({spec.axes.get(axis) for spec in specs}) > 1]


def _label(spec: TrialSpec, telling: Sequence[str], racing: Set[str]) -> str:
    """Name model, GPU count and hosts, unless they race, and what else tells races apart."""
    named, words = {"model", "num_gpus"}, []
    if "model" not in racing:
        words.append(spec.model)
    if "num_gpus" not in racing:
        named.add("hosts")
        words.append(width_name(spec.num_gpus, 1 if "hosts" in racing else spec.hosts))
    named |= racing
    others = [f"{axis}={spec.axes.get(axis)}" for axis in telling if axis not in named]
    return " ".join(filter(None, ["-".join(words), *others])) or "of all"


def _names(specs: Sequence[TrialSpec], racing: Set[str]) -> tuple[str, ...]:
    """Return the article's names of strategies, where these differ, with the other axes that do."""
    differing = _varying(specs, sorted(racing))
    others = [axis for axis in differing if axis not in STRATEGY_AXES]
    names = []
    for spec in specs:
        words = [f"{axis}={spec.axes.get(axis)}" for axis in others]
        if len(others) < len(differing):
            words.insert(0, spec.strategy)
        names.append(" ".join(words))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Repeats of races that were run, and that were not."""

    num_run: int = 0  # and completed
    num_spared: int = 0

    def __add__(self, other: Saved) -> Saved:
        return Saved(
            num_run=self.num_run + other.num_run, num_spared=self.num_spared + other.num_spared
        )

    def __str__(self) -> str:
        return f"saved {self.num_spared} of {counted(self.num_run + self.num_spared, 'repeat')}"


class Tally:
    """The results of contenders in all races of a sweep. A race is known by its index."""

    def __init__(self, races: Sequence[Race], most_repeats: int, read: ReadResults) -> None:
        self.races = races
        self.race_of = {
            trial_id: place for place, race in enumerate(races) for trial_id in race.trial_ids
        }
        self._most_repeats, self._read = most_repeats, read
        self._completed: dict[str, tuple[CompletedRepeat, ...]] = {}
        self._spreads: dict[str, Spread] = {}
        self._failures: dict[str, str] = {}
        self._learn(list(self.race_of))

    @property
    def num_completed(self) -> dict[str, int]:
        """Return trial id -> repeats that count."""
        return {trial_id: len(completed) for trial_id, completed in self._completed.items()}

    def learn(self, place: int) -> None:
        """Read again what the contenders of a race have shown. Raises StoreError."""
        self._learn(self.races[place].trial_ids)

    def failed(self, trial_id: str, outcome: Outcome) -> None:
        """Note that a repeat ended so for good."""
        self._failures[trial_id] = outcome.value

    def judge(self, place: int, num_left: Mapping[str, int]) -> Ruling:
        """Judge a race; `num_left` has trial id -> repeats that wait or run."""
        race = self.races[place]
        contenders = [
            Contender(
                trial_id=trial_id,
                name=name,
                speeds=self._speeds(trial_id),
                num_left=num_left.get(trial_id, 0),
                failure=self._failures.get(trial_id, ""),
            )
            for trial_id, name in zip(race.trial_ids, race.names, strict=True)
        ]
        return judge(contenders, Spread.sum(self._spreads.values()), self._most_repeats)

    def saved(self, place: int, num_spared: int) -> Saved:
        """Count the repeats of a race, `num_spared` of which were not run."""
        num_run = sum(len(self._completed[one]) for one in self.races[place].trial_ids)
        return Saved(num_run=num_run, num_spared=num_spared)

    def result(self, place: int, ruling: Ruling) -> str:
        """Say to people who won."""
        race = self.races[place]
        if ruling.leader is None:
            return "nothing of it completed"
        names = dict(zip(race.trial_ids, race.names, strict=True))
        speeds = {
            trial_id: median(self._speeds(trial_id))
            for trial_id in names
            if self._completed[trial_id]
        }
        best = speeds.pop(ruling.leader)
        unit = unit_of(self._completed[ruling.leader][0].item)
        leads = f"{names[ruling.leader]} leads with {fixed(best, 1)} {unit}"
        if ruling.tied:
            return f"{leads}, in a tie with {', '.join(names[one] for one in ruling.tied)}"
        if not speeds:
            return f"{leads}, and nothing else completed"
        second = max(speeds, key=speeds.__getitem__)
        return f"{leads}, {100 * (best / speeds[second] - 1):.1f} % more than {names[second]}"

    def _learn(self, trial_ids: Sequence[str]) -> None:
        found = self._read(trial_ids)
        for trial_id in trial_ids:
            self._completed[trial_id] = found.get(trial_id, ())
            self._spreads[trial_id] = Spread.of(self._speeds(trial_id))

    def _speeds(self, trial_id: str) -> tuple[float, ...]:
        return tuple(repeat.throughput for repeat in self._completed[trial_id])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRace:
    """One race, before it is run."""

    race: Race
    is_decided: bool  # by what was completed earlier
    num_least: int  # attempts, if each contender is out after its first repeat, and none fails
    num_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRaces:
    """All races of a plan."""

    race_over: tuple[str, ...]  # sweep.race_over
    races: tuple[PlannedRace, ...]
    alone: tuple[PlannedTrial, ...]  # trials that have nobody to race against

    def describe(self) -> Iterator[str]:
        """Give lines for people."""
        over = f"sweep.race_over=[{','.join(self.race_over)}]"
        if not self.races:
            yield f"sweep.race: nothing races, for no two trials differ in {over} alone"
            return
        num_least = sum(planned.num_least for planned in self.races)
        num_most = sum(planned.num_most for planned in self.races)
        num_decided = sum(planned.is_decided for planned in self.races)
        yield (
            f"sweep.race: races: {len(self.races)} ({over}), decided earlier: {num_decided}; "
            f"attempts: {num_least} at least, {num_most} at most"
        )
        if self.alone:
            labels = ", ".join(trial.label for trial in self.alone[:MOST_NAMED])
            dots = ", ..." if len(self.alone) > MOST_NAMED else ""
            yield f"            without a rival, and run in full: {len(self.alone)}: {labels}{dots}"


def with_races(plan: Plan, tally: Tally, race_over: Sequence[str]) -> tuple[Plan, PlannedRaces]:
    """Leave out the repeats that what was completed earlier makes worthless, and describe the
    races.
    """
    trials = {trial.spec.trial_id: trial for trial in plan.trials}
    left = {trial_id: trial.num_repeats for trial_id, trial in trials.items()}
    planned = []
    for place, race in enumerate(tally.races):
        is_decided = tally.judge(place, left).is_over
        planned.append(_planned(race, left, tally, is_decided))
        for trial_id in race.trial_ids:
            if is_decided and left[trial_id]:
                trials[trial_id] = replace(trials[trial_id], num_repeats=0, is_decided=True)
    alone = tuple(trial for trial in plan.trials if trial.spec.trial_id not in tally.race_of)
    races = PlannedRaces(race_over=tuple(race_over), races=tuple(planned), alone=alone)
    return replace(plan, trials=tuple(trials.values())), races


def _planned(race: Race, left: dict[str, int], tally: Tally, is_decided: bool) -> PlannedRace:
    if is_decided:
        return PlannedRace(race=race, is_decided=True, num_least=0, num_most=0)
    completed = [tally.num_completed[trial_id] for trial_id in race.trial_ids]
    # each runs once; who leads, twice
    least = completed.count(0) + (max(completed) < 2)
    most = sum(left[trial_id] for trial_id in race.trial_ids)
    return PlannedRace(race=race, is_decided=False, num_least=least, num_most=most)

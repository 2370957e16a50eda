"""Sorts trials into races, which have trials that differ in their strategy alone, and holds back
the repeats that are not worth running as their contest stands.

What is held back is still pending in the database: should processes turn out to differ more than
was thought, it is wanted again. Once a contest is over it is given up.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import sqlalchemy as sa

from scalemark.records.measurement import Outcome
from scalemark.records.trial import STRATEGY_AXES, TrialSpec, all_axes, strategy_axes
from scalemark.stats.welch import Spread
from scalemark.text.wording import as_typed, counted
from store.reading.earlier import CompletedRepeat, completed_repeats, last_attempt
from sweeper.early_stopping.rule import Contender, Ruling, rule_race
from sweeper.grid.plan import Plan, varying_axes
from sweeper.loop.backlog import Backlog, Task

DECIDED = "race: decided, enough repeats of it are completed"
ReadResults = Callable[[Sequence[str]], Mapping[str, tuple[CompletedRepeat, ...]]]
"""Trial ids -> their completed repeats so far that count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Repeats of contests that were run, and that were not."""

    num_run: int = 0  # and completed
    num_spared: int = 0

    def __str__(self) -> str:
        return f"saved {self.num_spared} of {counted(self.num_run + self.num_spared, 'repeat')}"


class Contest(ABC):
    """Trials of which some need fewer repeats the more is known of the others."""

    trial_ids: tuple[str, ...]  # in the order of the plan
    may_use_all: bool  # what is held back counts as left, for the ETA

    @property
    @abstractmethod
    def num_completed(self) -> Mapping[str, int]:
        """Return trial id -> repeats completed before and so far."""

    @abstractmethod
    def learn(self) -> None:
        """Read what was completed. Raises StoreError."""

    @abstractmethod
    def rule(self, num_left: Mapping[str, int]) -> Ruling:
        """Judge by what was learned; `num_left` are repeats that wait or run."""

    def begun(self, trial_id: str) -> None:  # noqa: B027
        """Note that an attempt begins."""

    @abstractmethod
    def ended(self, trial_id: str, final: Outcome | None) -> None:
        """Note how an attempt ended; `final` is None where its repeat is tried again."""


class Observer:
    """Looks on as the loop runs repeats, and holds back those that no contest wants. `skip` writes
    down that repeats are not run, and why.
    """

    def __init__(
        self,
        contests: Sequence[Contest],
        backlog: Backlog,
        skip: Callable[[Sequence[int], str], None],
    ) -> None:
        self.held_back: dict[int, Task] = {}  # by key
        self.saved = Saved()
        self._backlog, self._skip = backlog, skip
        self._contest_of: dict[str, Contest] = {}
        for contest in contests:
            self._contest_of.update(dict.fromkeys(contest.trial_ids, contest))
        self._over: list[Contest] = []
        self._running: Counter[str] = Counter()

    def begun(self, key: int) -> None:
        """Note that an attempt of this repeat is written down."""
        trial_id = self._trial_of(key)
        self._running[trial_id] += 1
        if trial_id in self._contest_of:
            self._contest_of[trial_id].begun(trial_id)

    def ended(self, key: int, final: Outcome | None) -> None:
        """Note the end of an attempt: `final` is the outcome, or None when it is tried again."""
        trial_id = self._trial_of(key)
        self._running[trial_id] -= 1
        if trial_id in self._contest_of:
            self._contest_of[trial_id].ended(trial_id, final)

    def wants(self, task: Task) -> bool:
        """Return whether a repeat that could start now is still worth it."""
        # judged again: other races may have shown meanwhile how far processes differ
        trial_id = self._trial_of(task.key)
        contest = self._contest_of.get(trial_id)
        if contest is None:
            return True
        return self._running[trial_id] < self._rule(contest, task.key).wanted[trial_id]

    def expected(self) -> Collection[Task]:
        """Return what is held back and yet counts as left, for the ETA."""
        expected = []
        for key, task in self.held_back.items():
            if self._contest_of[self._trial_of(key)].may_use_all:
                expected.append(task)
        return expected

    def steer(self, key: int) -> None:
        """Judge again after something became of this repeat. Raises StoreError."""
        contest = self._contest_of.get(self._trial_of(key))
        if contest is not None:
            self._steer(contest)

    def steer_all(self) -> None:
        """Steer the contests of which this sweep had anything to run. Raises StoreError."""
        planned = set(self._backlog.trial_ids())
        for contest in dict.fromkeys(self._contest_of.values()):
            if not planned.isdisjoint(contest.trial_ids):
                self._steer(contest)

    def _steer(self, contest: Contest) -> None:
        """Read what its trials have shown, also in other sweeps; hold back and let go."""
        contest.learn()
        ruling = self._rule(contest)
        num_open = 0  # that wait or run
        for trial_id in contest.trial_ids:
            waiting = [key for key in self._backlog.of_trial(trial_id) if self._backlog.waits(key)]
            num_wanted = max(0, ruling.wanted[trial_id] - self._running[trial_id])
            for key in waiting[num_wanted:]:
                self.held_back[key] = self._backlog.remove(key)
            for key in self._held_back_of(trial_id)[: max(0, num_wanted - len(waiting))]:
                self._backlog.queue.put_back(self.held_back.pop(key))
            num_open += num_wanted + self._running[trial_id]
        if not num_open and contest not in self._over:
            self._end(contest, ruling)

    def _rule(self, contest: Contest, taken: int | None = None) -> Ruling:
        """Count as left what waits or runs; `taken` was taken out of the queue a moment ago."""
        num_left = {}
        for trial_id in contest.trial_ids:
            num_left[trial_id] = self._running[trial_id]
            for key in self._backlog.of_trial(trial_id):
                if key == taken or key in self.held_back or self._backlog.waits(key):
                    num_left[trial_id] += 1
        return contest.rule(num_left)

    def _end(self, contest: Contest, ruling: Ruling) -> None:
        self._over.append(contest)
        num_spared = 0
        for trial_id in contest.trial_ids:
            keys = self._held_back_of(trial_id)
            for key in keys:
                del self.held_back[key]
            if keys:
                self._skip(keys, ruling.out.get(trial_id, DECIDED))
            num_spared += len(keys)
        self.saved = Saved(
            num_run=self.saved.num_run + sum(contest.num_completed.values()),
            num_spared=self.saved.num_spared + num_spared,
        )

    def _trial_of(self, key: int) -> str:
        return self._backlog[key].open.trial_id

    def _held_back_of(self, trial_id: str) -> list[int]:
        return [key for key in self._backlog.of_trial(trial_id) if key in self.held_back]


RACING: Sequence[str] = STRATEGY_AXES
"""Axes in which the trials of a race differ; those of a program in its free axes."""


class RaceResults:
    """What the contenders of all races of a sweep have shown: how far processes differ is learned
    from all of them.
    """

    def __init__(self, most_repeats: int, read: ReadResults) -> None:
        self.most_repeats, self._read = most_repeats, read
        self._speeds: dict[str, tuple[float, ...]] = {}
        self._spreads: dict[str, Spread] = {}
        self._items: dict[str, str] = {}

    @property
    def spread(self) -> Spread:
        return Spread.sum(self._spreads.values())

    def item(self, trial_id: str) -> str:
        """Return what is counted per second, in a trial that has completed."""
        return self._items[trial_id]

    def learn(self, trial_ids: Sequence[str]) -> None:
        """Read again what these have shown. Raises StoreError."""
        completed = self._read(trial_ids)
        for trial_id in trial_ids:
            speeds = tuple(repeat.throughput for repeat in completed.get(trial_id, ()))
            self._speeds[trial_id], self._spreads[trial_id] = speeds, Spread.of(speeds)
            self._items.update((trial_id, repeat.item) for repeat in completed.get(trial_id, ()))

    def speeds(self, trial_id: str) -> tuple[float, ...]:
        return self._speeds[trial_id]


class Race(Contest):
    """A contest of which one trial shall be found the fastest."""

    may_use_all = False

    def __init__(
        self, trial_ids: tuple[str, ...], names: tuple[str, ...], results: RaceResults
    ) -> None:
        self.trial_ids = trial_ids  # two or more
        self.names = names  # for people: what tells each from the others
        self.is_decided = False  # by what was completed before the sweep
        self._results = results  # of all races
        self._failures: dict[str, str] = {}

    @property
    def num_completed(self) -> dict[str, int]:
        return {trial_id: len(self._results.speeds(trial_id)) for trial_id in self.trial_ids}

    def ended(self, trial_id: str, final: Outcome | None) -> None:
        if final not in (None, Outcome.COMPLETED):
            self._failures[trial_id] = str(final)

    def is_over(self, num_left: Mapping[str, int]) -> bool:
        """Return whether nothing is worth running by what was completed."""
        return self.rule(num_left).is_over

    def learn(self) -> None:
        self._results.learn(self.trial_ids)

    def rule(self, num_left: Mapping[str, int]) -> Ruling:
        contenders = self.contenders(num_left)
        return rule_race(contenders, self._results.spread, self._results.most_repeats)

    def contenders(self, num_left: Mapping[str, int]) -> list[Contender]:
        """Return what each has shown."""
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
        return contenders


def make_races(specs: Sequence[TrialSpec], most_repeats: int, read: ReadResults) -> list[Race]:
    """Sort trials into races in the plan's order; none without a rival. Raises StoreError."""
    known = all_axes(specs)
    groups: dict[tuple[object, ...], list[TrialSpec]] = {}
    for spec in specs:
        shared = spec.axes
        for axis in {*RACING, *strategy_axes(shared)}:
            shared.pop(axis, None)
        key = tuple(shared.get(axis) for axis in known)
        groups.setdefault(key, []).append(spec)
    results = RaceResults(most_repeats, read)
    races: list[Race] = []
    racing_ids: list[str] = []
    for group in groups.values():
        if len(group) > 1:
            trial_ids = tuple(spec.trial_id for spec in group)
            races.append(Race(trial_ids, tuple(names_of(group)), results))
            racing_ids += trial_ids
    results.learn(racing_ids)
    return races


def names_of(specs: Sequence[TrialSpec]) -> list[str]:
    """Return what tells the strategy of each trial from the others, whatever its GPUs."""
    varying = varying_axes(specs) - {"num_gpus", "hosts"}
    names = []
    for spec in specs:
        own = spec.axes
        others = sorted(varying.difference(strategy_axes(own)))
        words = [f"{axis}={as_typed(own[axis])}" for axis in others if own.get(axis) is not None]
        names.append(" ".join([spec.strategy, *words]))
    return names


def results_in(
    engine: sa.Engine | None, machine_key: str, software_key: str, *, shares_host: bool, rerun: bool
) -> ReadResults:
    """Return a reader of those that count for a sweep on this machine and software, with `rerun`
    from now on; none without a database.
    """
    if engine is None:
        return lambda _: {}
    return partial(
        completed_repeats,
        engine,
        machine_key=machine_key,
        software_key=software_key,
        shares_host=shares_host,
        after=last_attempt(engine) if rerun else 0,
    )


def without_decided(plan: Plan, races: Sequence[Race]) -> Plan:
    """Leave out the repeats of races that what was completed earlier decides, and note these."""
    left = {trial.spec.trial_id: trial.num_repeats for trial in plan.trials}
    decided: set[str] = set()
    for race in races:
        race.is_decided = race.is_over(left)
        if race.is_decided:
            decided.update(race.trial_ids)
    trials = []
    for trial in plan.trials:
        if trial.num_repeats and trial.spec.trial_id in decided:
            trial = replace(trial, num_repeats=0, is_decided=True)
        trials.append(trial)
    return replace(plan, trials=tuple(trials))

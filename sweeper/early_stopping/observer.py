"""Holds back the repeats that are not worth running as their contest stands, and gives them up once
it is over.

What is held back is still pending in the database: should processes turn out to differ more than
was thought, it is wanted again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from scalemark.records.outcomes import Outcome
from scalemark.text.wording import counted
from store.reading.earlier import CompletedRepeat
from sweeper.early_stopping.rule import Ruling
from sweeper.loop.backlog import Backlog
from sweeper.running.schedule import Task

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

    @abstractmethod
    def ended(self, trial_id: str, final: Outcome | None) -> None:
        """Note how an attempt ended; `final` is None where its repeat is tried again."""

    @abstractmethod
    def result(self, ruling: Ruling, num_spared: int) -> str:
        """Say to people how it ended; empty where somebody else does."""


class Observer:
    """Looks on as the loop runs repeats, and holds back those that no contest wants. `skip` writes
    down that repeats are not run, and why; `tell` says to people how a contest ended.
    """

    def __init__(
        self,
        contests: Sequence[Contest],
        backlog: Backlog,
        skip: Callable[[Sequence[int], str], None],
        tell: Callable[[str], object],
    ) -> None:
        self.held_back: dict[int, Task] = {}  # by key
        self.saved = Saved()
        self._backlog, self._skip, self._tell = backlog, skip, tell
        self._contest_of: dict[str, Contest] = {}
        for contest in contests:
            self._contest_of.update(dict.fromkeys(contest.trial_ids, contest))
        self._over: list[Contest] = []
        self._running: Counter[str] = Counter()

    def begun(self, key: int) -> None:
        """Note that an attempt of this repeat is written down."""
        self._running[self._trial_of(key)] += 1

    def ended(self, key: int, final: Outcome | None) -> None:
        """Note that an attempt ended: `final` is the repeat's outcome, or None when it is tried
        again.
        """
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
        """Steer those contests of which this sweep had anything to run when it began. Raises
        StoreError.
        """
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
        """Count as left what waits or runs; `taken` is a repeat that was taken out of the queue a
        moment ago.
        """
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
        result = contest.result(ruling, num_spared)
        if result:
            self._tell(result)

    def _trial_of(self, key: int) -> str:
        return self._backlog[key].open.trial_id

    def _held_back_of(self, trial_id: str) -> list[int]:
        return [key for key in self._backlog.of_trial(trial_id) if key in self.held_back]

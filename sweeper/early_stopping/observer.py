"""Holds back the repeats that are not worth running as their contest stands, and gives them up once
it is over.

What is held back is still pending in the database: should processes turn out to differ more than
was thought, it is wanted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from scalemark.records.outcomes import Outcome
from scalemark.text.wording import counted
from sweeper.early_stopping.rule import Ruling
from sweeper.loop.backlog import Backlog
from sweeper.running.schedule import Task

DECIDED = "race: decided, enough repeats of it are completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Repeats of races that were run, and that were not."""

    num_run: int = 0  # and completed
    num_spared: int = 0

    def __str__(self) -> str:
        return f"saved {self.num_spared} of {counted(self.num_run + self.num_spared, 'repeat')}"


class Contest(Protocol):
    """Trials of which some need fewer repeats the more is known of the others."""

    trial_ids: tuple[str, ...]  # in the order of the plan
    may_use_all: bool  # what is held back counts as left, for the ETA

    @property
    def num_completed(self) -> Mapping[str, int]:
        """Return trial id -> repeats completed before and so far."""

    def begun(self, trial_id: str) -> None:
        """Note that an attempt is written down."""

    def ended(self, trial_id: str, final: Outcome | None, duration_s: float) -> None:
        """Note how an attempt ended; `final` is None where its repeat is tried again."""

    def learn(self) -> None:
        """Read what was completed. Raises StoreError."""

    def rule(self, num_left: Mapping[str, int]) -> Ruling:
        """Judge by what was learned; `num_left` are repeats that wait or run."""

    def result(self, ruling: Ruling, num_spared: int) -> str:
        """Say to people how it ended; empty where somebody else does."""


class Observer:
    """Looks on as the loop runs repeats, and may hold some back. This one holds back nothing."""

    def __init__(self) -> None:
        self.held_back: dict[int, Task] = {}  # by key
        self.saved = Saved()

    def begun(self, key: int) -> None:
        """Note that an attempt of this repeat is written down."""

    def ended(self, key: int, final: Outcome | None, duration_s: float) -> None:
        """Note that an attempt ended after so long: `final` is the repeat's outcome, or None when
        it is tried again.
        """

    def wants(self, task: Task) -> bool:
        """Return whether a repeat that could start now is still worth it."""
        return True

    def expected(self) -> Collection[Task]:
        """Return what is held back and yet counts as left, for the ETA."""
        return ()

    def steer(self, key: int) -> None:
        """Judge again after something became of this repeat. Raises StoreError."""

    def steer_all(self) -> None:
        """Judge all contests again. Raises StoreError."""


class ContestObserver(Observer):
    """Observes all contests of one sweep. `skip` writes down that repeats are not run, and why;
    `tell` says to people how a contest ended.
    """

    def __init__(
        self,
        contests: Sequence[Contest],
        backlog: Backlog,
        skip: Callable[[Sequence[int], str], None],
        tell: Callable[[str], object],
    ) -> None:
        super().__init__()
        self._contests, self._backlog = contests, backlog
        self._skip, self._tell = skip, tell
        self._contest_of: dict[str, Contest] = {}
        for contest in contests:
            self._contest_of.update(dict.fromkeys(contest.trial_ids, contest))
        self._over: list[Contest] = []
        self._running: Counter[str] = Counter()

    def begun(self, key: int) -> None:
        trial_id = self._trial_of(key)
        self._running[trial_id] += 1
        if trial_id in self._contest_of:
            self._contest_of[trial_id].begun(trial_id)

    def ended(self, key: int, final: Outcome | None, duration_s: float) -> None:
        trial_id = self._trial_of(key)
        self._running[trial_id] -= 1
        if trial_id in self._contest_of:
            self._contest_of[trial_id].ended(trial_id, final, duration_s)

    def wants(self, task: Task) -> bool:
        # judged again: other races may have shown meanwhile how far processes differ
        trial_id = self._trial_of(task.key)
        contest = self._contest_of.get(trial_id)
        if contest is None:
            return True
        return self._running[trial_id] < self._rule(contest, task.key).wanted[trial_id]

    def expected(self) -> Collection[Task]:
        expected = []
        for key, task in self.held_back.items():
            if self._contest_of[self._trial_of(key)].may_use_all:
                expected.append(task)
        return expected

    def steer(self, key: int) -> None:
        contest = self._contest_of.get(self._trial_of(key))
        if contest is not None:
            self._steer(contest)

    def steer_all(self) -> None:
        """Steer those contests of which this sweep had anything to run when it began."""
        planned = set(self._backlog.trial_ids())
        for contest in self._contests:
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
        given_up: dict[str, list[int]] = {}
        for trial_id in contest.trial_ids:
            reason = ruling.out.get(trial_id, DECIDED)
            given_up.setdefault(reason, []).extend(self._held_back_of(trial_id))
        num_spared = sum(map(len, given_up.values()))
        num_run = sum(contest.num_completed.values())
        self.saved = Saved(
            num_run=self.saved.num_run + num_run, num_spared=self.saved.num_spared + num_spared
        )
        for reason, keys in given_up.items():
            for key in keys:
                del self.held_back[key]
            if keys:
                self._skip(keys, reason)
        result = contest.result(ruling, num_spared)
        if result:
            self._tell(result)

    def _trial_of(self, key: int) -> str:
        return self._backlog[key].open.trial_id

    def _held_back_of(self, trial_id: str) -> list[int]:
        return [key for key in self._backlog.of_trial(trial_id) if key in self.held_back]

"""Holds back the repeats that are not worth running as their race stands, and gives them up once it
is over.

What is held back is still pending in the database: should processes turn out to differ more than
was thought, it is wanted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from scalemark.records.outcomes import Outcome
from sweeper.loop.backlog import Backlog
from sweeper.race.judge import Ruling
from sweeper.race.races import Saved, Tally
from sweeper.running.schedule import Task

DECIDED = "race: decided, enough repeats of it are completed"


class Observer:
    """Looks on as the loop runs repeats, and may hold some back. This one holds back nothing."""

    def __init__(self) -> None:
        self.held_back: dict[int, Task] = {}  # by key
        self.saved = Saved()

    def begun(self, key: int) -> None:
        """An attempt of this repeat is written down."""

    def ended(self, key: int, final: Outcome | None, duration_s: float) -> None:
        """An attempt has ended, which ran for so long: `final` is the repeat's outcome, or None
        when it is tried again.
        """

    def wants(self, task: Task) -> bool:
        """Say whether a repeat that could start now is still worth it."""
        return True

    def expected(self) -> Collection[Task]:
        """Return what is held back and yet counts as left, for the ETA."""
        return ()

    def steer(self, key: int) -> None:
        """Judge again after something became of this repeat. Raises StoreError."""

    def steer_all(self) -> None:
        """Judge all races again. Raises StoreError."""


MakeObserver = Callable[
    [Backlog, Callable[[Sequence[int], str], None], Callable[[str], object]], Observer
]
"""Makes an observer of what waits, given how to write down that repeats are not run, and why, and
how to say something to people."""


class RacingObserver(Observer):
    """Observes all races of one sweep.

    `skip` writes down that repeats are not run, and why; `tell` says to people how a race ended.
    """

    def __init__(
        self,
        tally: Tally,
        backlog: Backlog,
        skip: Callable[[Sequence[int], str], None],
        tell: Callable[[str], object],
    ) -> None:
        super().__init__()
        self._tally, self._backlog = tally, backlog
        self._skip, self._tell = skip, tell
        self._races = sorted(
            {tally.race_of[one] for one in backlog.trial_ids() if one in tally.race_of}
        )
        self._ended: set[int] = set()
        self._running: Counter[str] = Counter()

    def begun(self, key: int) -> None:
        self._running[self._trial_of(key)] += 1

    def ended(self, key: int, final: Outcome | None, duration_s: float) -> None:
        trial_id = self._trial_of(key)
        self._running[trial_id] -= 1
        if final not in (None, Outcome.COMPLETED) and trial_id in self._tally.race_of:
            self._tally.failed(trial_id, final)

    def wants(self, task: Task) -> bool:
        # judged again: other races may have shown meanwhile how far processes differ
        trial_id = self._trial_of(task.key)
        race = self._tally.race_of.get(trial_id)
        if race is None:
            return True
        return self._running[trial_id] < self._judge(race, task.key).wanted[trial_id]

    def steer(self, key: int) -> None:
        race = self._tally.race_of.get(self._trial_of(key))
        if race is not None:
            self._steer(race)

    def steer_all(self) -> None:
        """Steer those races of which this sweep had anything to run when it began."""
        for race in self._races:
            self._steer(race)

    def _steer(self, race: int) -> None:
        """Read what its contenders have shown, also in other sweeps; hold back and let go."""
        self._tally.learn(race)
        ruling = self._judge(race)
        num_waiting = 0
        for trial_id in self._trials(race):
            waiting = [key for key in self._backlog.of_trial(trial_id) if self._backlog.waits(key)]
            num_wanted = max(0, ruling.wanted[trial_id] - self._running[trial_id])
            for key in waiting[num_wanted:]:
                self.held_back[key] = self._backlog.remove(key)
            for key in self._held_back_of(trial_id)[: max(0, num_wanted - len(waiting))]:
                self._backlog.queue.put_back(self.held_back.pop(key))
            num_waiting += num_wanted
        is_running = any(self._running[trial_id] for trial_id in self._trials(race))
        if not num_waiting and not is_running and race not in self._ended:
            self._end(race, ruling)

    def _judge(self, race: int, elsewhere: int | None = None) -> Ruling:
        """Count as left what waits or runs; `elsewhere` is a repeat that waits, though it was taken
        out of the queue a moment ago.
        """
        num_left = {}
        for trial_id in self._trials(race):
            num_left[trial_id] = self._running[trial_id]
            for key in self._backlog.of_trial(trial_id):
                if key == elsewhere or key in self.held_back or self._backlog.waits(key):
                    num_left[trial_id] += 1
        return self._tally.judge(race, num_left)

    def _end(self, race: int, ruling: Ruling) -> None:
        self._ended.add(race)
        given_up: dict[str, list[int]] = {}
        num_spared = 0
        for trial_id in self._trials(race):
            keys = self._held_back_of(trial_id)
            num_spared += len(keys)
            for key in keys:
                del self.held_back[key]
            if keys:
                given_up.setdefault(ruling.out.get(trial_id, DECIDED), []).extend(keys)
        saved = self._tally.saved(race, num_spared)
        self.saved += saved
        label, result = self._tally.races[race].label, self._tally.result(race, ruling)
        for reason, keys in given_up.items():
            self._skip(keys, reason)
        self._tell(f"race {label}: {result}; {saved}")

    def _trial_of(self, key: int) -> str:
        return self._backlog[key].open.trial_id

    def _trials(self, race: int) -> tuple[str, ...]:
        return self._tally.races[race].trial_ids

    def _held_back_of(self, trial_id: str) -> list[int]:
        return [key for key in self._backlog.of_trial(trial_id) if key in self.held_back]

"""Holds back the repeats that are not worth running as their race stands, and gives them up once it
is over.

What is held back is still pending in the database: should processes turn out to differ more than
was thought, it is wanted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scalemark.records.outcomes import Outcome
from sweeper.race.judge import Ruling
from sweeper.race.tally import Saved, Tally
from sweeper.running.schedule import Queue, Task

DECIDED = "race: decided, enough repeats of it are completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What follows from the end of a race."""

    given_up: Mapping[str, Sequence[int]]  # reason -> keys of repeats that are not run
    text: str  # for people


class Steward:
    """Of all races of one sweep. `trial_of`: key of a repeat that is open -> its trial."""

    def __init__(
        self, tally: Tally, queue: Queue, trial_of: Mapping[int, str], device: str
    ) -> None:
        self._tally, self._queue, self._trial_of, self._device = tally, queue, trial_of, device
        self._keys: dict[str, list[int]] = {}
        for key, trial_id in trial_of.items():
            self._keys.setdefault(trial_id, []).append(key)
        self.held_back: dict[int, Task] = {}  # by key
        self._ended: set[int] = set()
        self._running: Counter[str] = Counter()
        self.saved = Saved()  # of the races that are over

    def begun(self, key: int) -> None:
        self._running[self._trial_of[key]] += 1

    def ended(self, key: int, final: Outcome | None, duration_s: float) -> None:
        """An attempt; `final` is the outcome of the repeat, none when it is tried again."""
        trial_id = self._trial_of[key]
        self._running[trial_id] -= 1
        if final not in (None, Outcome.COMPLETED) and trial_id in self._tally.race_of:
            self._tally.failed(trial_id, final, duration_s)

    def open_races(self) -> list[int]:
        """Those of which this sweep had anything to run when it began."""
        return sorted({race for key in self._trial_of if (race := self.race_of(key)) is not None})

    def race_of(self, key: int) -> int | None:
        """None when the trial has nobody to race against."""
        return self._tally.race_of.get(self._trial_of[key])

    def learn(self, race: int) -> None:
        """Read anew what its contenders have shown, also in other sweeps. Raises StoreError."""
        self._tally.learn(race)

    def wants(self, task: Task) -> bool:
        """Is a repeat that could start now still worth it? Other races may have told meanwhile how
        far processes differ.
        """
        race, trial_id = self.race_of(task.key), self._trial_of[task.key]
        return (
            race is None
            or self._running[trial_id] < self._judge(race, (task.key,)).wanted[trial_id]
        )

    def steer(self, race: int, put_off: list[Task]) -> End | None:
        """Hold back and let go as the race stands; what follows if it is over. `put_off`: what
        waits outside the queue.
        """
        elsewhere = {task.key: task for task in put_off}
        ruling = self._judge(race, elsewhere)
        num_waiting = 0
        for trial_id in self._trials(race):
            waiting = [
                key
                for key in self._keys.get(trial_id, ())
                if key in self._queue or key in elsewhere
            ]
            num_wanted = max(0, ruling.wanted[trial_id] - self._running[trial_id])
            for key in waiting[num_wanted:]:
                self.held_back[key] = (
                    elsewhere[key] if key in elsewhere else self._queue.remove(key)
                )
            put_off[:] = [task for task in put_off if task.key not in self.held_back]
            for key in self._held_back_of(trial_id)[: max(0, num_wanted - len(waiting))]:
                self._queue.put_back(self.held_back.pop(key))
            num_waiting += num_wanted
        is_over = not num_waiting and not any(
            self._running[trial_id] for trial_id in self._trials(race)
        )
        return self._end(race, ruling) if is_over and race not in self._ended else None

    def _judge(self, race: int, elsewhere: Collection[int]) -> Ruling:
        left = {
            trial_id: self._running[trial_id]
            + sum(
                key in self._queue or key in elsewhere or key in self.held_back
                for key in self._keys.get(trial_id, ())
            )
            for trial_id in self._trials(race)
        }
        return self._tally.judge(race, left)

    def _end(self, race: int, ruling: Ruling) -> End:
        self._ended.add(race)
        given_up: dict[str, list[int]] = {}
        num_spared: dict[str, int] = {}
        for trial_id in self._trials(race):
            keys = self._held_back_of(trial_id)
            num_spared[trial_id] = len(keys)
            for key in keys:
                del self.held_back[key]
                given_up.setdefault(ruling.out.get(trial_id, DECIDED), []).append(key)
        saved = self._tally.saved(race, num_spared)
        self.saved += saved
        text = (
            f"race {self._tally.races[race].label}: {self._tally.result(race, ruling)}; "
            f"{saved.told(self._device)}"
        )
        return End(given_up=given_up, text=text)

    def _trials(self, race: int) -> tuple[str, ...]:
        return self._tally.races[race].trial_ids

    def _held_back_of(self, trial_id: str) -> list[int]:
        return [key for key in self._keys.get(trial_id, ()) if key in self.held_back]

"""Keeps the repeats that wait to be run, and decides which of them starts next: in turn, or packed
side by side.

Exclusive: rounds one after another, each in a random order of its own, so that drift hits all
trials alike. Packed: in each round the longest expected first. In both the first that fits now
starts, be it of a later round: narrow tasks overtake a wide one that lacks devices. Pure: no clock,
no input, no output.
"""

import hashlib
import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import fmean

from scalemark.records.attempt import Placement
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from store.ledger import OpenRepeat
from sweeper.devices.host_lock import Held
from sweeper.grid.plan import PlannedTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One repeat that waits to be run."""

    key: int  # id of the repeat in the store
    num_gpus: int
    expected_s: float | None  # how long it will take; None = never ran here
    round: int  # blocks of repeats: every trial runs once per round


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A place in the order."""

    round: int
    retry: int  # 0, or the number of the retry: they come last in their round
    # packed: longest first, and what is unknown counts as the longest; exclusive: 0
    minus_expected_s: float
    tie: int  # random
    key: int


class Queue:
    """The repeats that wait."""

    def __init__(self, tasks: Iterable[Task], *, seed: int, packs: bool) -> None:
        self._seed, self._packs = seed, packs
        self._tasks = {task.key: task for task in tasks}
        self._retry_of: Counter[int] = Counter()  # key -> number of its retry; those that left, too
        self._num_retries = 0
        self._order = sorted(map(self._place, self._tasks.values()))
        self._widths = Counter(task.num_gpus for task in self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: int) -> bool:
        return key in self._tasks

    def tasks(self) -> list[Task]:
        """Return all that wait, in no order."""
        return list(self._tasks.values())

    def put_back(self, task: Task) -> None:
        """Have a task wait that does not, at the place that it has in the order."""
        self._tasks[task.key] = task
        insort(self._order, self._place(task))
        self._widths[task.num_gpus] += 1

    def push(self, task: Task) -> None:
        """Have a task tried again, at the end of its round."""
        self._num_retries += 1
        self._retry_of[task.key] = self._num_retries
        self.put_back(task)

    def expect(self, keys: Collection[int], expected_s: float) -> None:
        """Sort tasks in again by what they are expected to take now; others are passed over."""
        for key in keys:
            if key in self._tasks:
                self.put_back(replace(self.remove(key), expected_s=expected_s))

    def remove(self, key: int) -> Task:
        """Forget a task: it is skipped, held back, or done elsewhere. Raises KeyError."""
        task = self._tasks.pop(key)
        del self._order[bisect_left(self._order, self._place(task))]
        self._widths[task.num_gpus] -= 1
        return task

    def pop(self, fits: Callable[[int], bool], *, is_idle: bool) -> Task | None:
        """Take out the task that starts now; None when there is none, or none may.

        `fits` says whether there is room for so many devices, `is_idle` that nothing runs.
        """
        if not self._packs and not is_idle:
            return None
        fitting = {width for width, num in self._widths.items() if num and fits(width)}
        for place in self._order if fitting else ():
            if self._tasks[place.key].num_gpus in fitting:
                return self.remove(place.key)
        return None

    def _place(self, task: Task) -> _Place:
        expected_s = 0.0
        if self._packs:  # one of unknown length comes first
            expected_s = float("inf")
            if task.expected_s is not None:
                expected_s = task.expected_s
        retry = self._retry_of[task.key]
        # random, and the same for these: an interrupted sweep goes on in the order it began with
        text = f"{self._seed} {task.round} {task.key}"
        tie = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
        return _Place(task.round, retry, -expected_s, tie, task.key)


@dataclass(slots=True)
class Repeat:
    """A repeat of the sweep, and the attempts made of it here."""

    open: OpenRepeat
    trial: PlannedTrial
    task: Task
    # attempts, by what sweeper.loop.attempt.end_of calls their ends
    num_ended: Counter[str] = field(default_factory=Counter)


class Backlog:
    """All repeats by their keys. One that waits is in the `queue`, or `put_off` while another sweep
    runs a repeat that would do as well.
    """

    def __init__(self, repeats: Iterable[Repeat], *, seed: int, packs: bool) -> None:
        self._repeats: dict[int, Repeat] = {}
        self._of_trial: dict[str, list[int]] = {}
        for repeat in repeats:
            self._repeats[repeat.task.key] = repeat
            self._of_trial.setdefault(repeat.open.trial_id, []).append(repeat.task.key)
        tasks = (repeat.task for repeat in self._repeats.values())
        self.queue = Queue(tasks, seed=seed, packs=packs)
        self.put_off: list[Task] = []

    def __getitem__(self, key: int) -> Repeat:
        return self._repeats[key]

    def __len__(self) -> int:
        """Repeats that wait."""
        return len(self.queue) + len(self.put_off)

    @property
    def num_known(self) -> int:
        """Count all repeats, also those that wait no more."""
        return len(self._repeats)

    def waits(self, key: int) -> bool:
        return key in self.queue or any(task.key == key for task in self.put_off)

    def waiting(self) -> list[Task]:
        return [*self.queue.tasks(), *self.put_off]

    def of_trial(self, trial_id: str) -> Sequence[int]:
        """Keys, in the order of the plan."""
        return self._of_trial.get(trial_id, ())

    def trial_ids(self) -> Iterable[str]:
        return self._of_trial

    def remove(self, key: int) -> Task:
        """Have a repeat wait no more. Raises KeyError when it does not wait."""
        for task in self.put_off:
            if task.key == key:
                self.put_off.remove(task)
                return task
        return self.queue.remove(key)

    def ask_for_put_off(self) -> None:
        for task in self.put_off:
            self.queue.put_back(task)
        self.put_off.clear()

    def expect(self, trial_id: str, duration_s: float) -> None:
        """Expect other repeats of a trial to take as long as one took."""
        keys = self._of_trial[trial_id]
        for key in keys:
            repeat = self._repeats[key]
            repeat.task = replace(repeat.task, expected_s=duration_s)
        self.queue.expect(keys, duration_s)


def planned_repeats(
    waiting: Sequence[OpenRepeat],
    trials: Collection[PlannedTrial],
    expected_s: Callable[[TrialSpec], float | None],
    num_completed: Mapping[str, int],
    width: Callable[[TrialSpec], int] = lambda spec: spec.num_gpus,
) -> Iterable[Repeat]:
    """Yield the repeats that wait. The round of each is its place among those of its trial, after
    `num_completed` that count as run.
    """
    by_id = {trial.spec.trial_id: trial for trial in trials}
    expected = {trial_id: expected_s(trial.spec) for trial_id, trial in by_id.items()}
    rounds: Counter[str] = Counter(num_completed)
    for repeat in waiting:
        trial = by_id[repeat.trial_id]
        task = Task(
            key=repeat.repeat_id,
            num_gpus=width(trial.spec),
            expected_s=expected[repeat.trial_id],
            round=rounds[repeat.trial_id],
        )
        rounds[repeat.trial_id] += 1
        yield Repeat(open=repeat, trial=trial, task=task)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Devices and cores of one attempt, and the lock that keeps other sweeps off them."""

    grant: Placement
    held: Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An attempt with all that it was given, before it is started and while it runs."""

    repeat: Repeat
    placement: Placement
    room: Room
    environment: dict[str, str]
    folder: RunFolder
    started_at: datetime
    started_s: float  # the same on the clock of the loop
    loading: int = -1  # a descriptor: readable when what starts it may have been loaded


_SHARE_OF_A_CORE = 0.005  # what estimating may cost


class Eta:
    """Estimates when all of a sweep will have ended: what is left, shared evenly by the devices."""

    def __init__(
        self,
        num_devices: int,
        most_at_once: int,
        clock: Callable[[], float],
        most_left_s: Callable[[], float] = lambda: math.inf,  # until nothing more may begin
    ) -> None:
        self._num_devices, self._most_at_once, self._clock = num_devices, most_at_once, clock
        self._most_left_s = most_left_s
        self._seen_s: list[float] = []
        self._end_s: float | None = None
        self._next_s = clock()

    def left_s(self) -> float | None:
        """Return the seconds left; None while no duration is known."""
        if self._end_s is None:
            return None
        return max(0.0, min(self._end_s - self._clock(), self._most_left_s()))

    def completed(self, duration_s: float) -> None:
        """Note a duration; attempts without an estimate are expected to take as long."""
        self._seen_s.append(duration_s)

    def update(self, waiting: Sequence[Task], running: Sequence[Given]) -> None:
        """Call when something has ended."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._end_s = None
        tasks = [*waiting, *(given.repeat.task for given in running)]
        known_s = [task.expected_s for task in tasks if task.expected_s is not None]
        if self._seen_s or known_s or not tasks:
            usual_s = fmean(self._seen_s or known_s or [0.0])
            self._end_s = now_s + self._remaining_s(waiting, running, usual_s, now_s)
        self._next_s = self._clock() + (self._clock() - now_s) / _SHARE_OF_A_CORE

    def _remaining_s(
        self, waiting: Sequence[Task], running: Sequence[Given], usual_s: float, now_s: float
    ) -> float:
        total_s = device_s = longest_s = 0.0
        lengths = [(task, 0.0) for task in waiting]
        lengths += [(given.repeat.task, now_s - given.started_s) for given in running]
        for task, passed_s in lengths:
            expected_s = task.expected_s
            if expected_s is None:
                expected_s = usual_s
            length_s = max(0.0, expected_s - passed_s)
            total_s += length_s
            device_s += task.num_gpus * length_s
            longest_s = max(longest_s, length_s)
        return max(total_s / self._most_at_once, device_s / self._num_devices, longest_s)

"""Decides which of the waiting repeats starts next: in turn, or packed side by side.

Exclusive: rounds one after another, each in a random order of its own, so that drift hits all
trials alike. Packed: in each round the longest expected first. In both the first that fits now
starts, be it of a later round: narrow tasks overtake a wide one that lacks devices. Pure: no clock,
no input, no output.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from sweeper.devices.slots import Blocks


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
    """The repeats that wait.

    Raises ValueError for a task that is wider than there are devices: it could never start.
    """

    def __init__(self, tasks: Iterable[Task], *, blocks: Blocks, seed: int, packs: bool) -> None:
        self._num_devices, self._seed, self._packs = len(blocks.order), seed, packs
        self._tasks: dict[int, Task] = {}
        self._places: dict[int, _Place] = {}
        self._retry_of: dict[int, int] = {}  # key -> number of its retry, also of those that left
        self._lines: dict[int, list[_Place]] = {}  # width -> sorted; none is empty
        self._num_retries = 0
        for task in tasks:
            self.add(task)

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: int) -> bool:
        return key in self._tasks

    def tasks(self) -> list[Task]:
        """Return all that wait, in no order."""
        return list(self._tasks.values())

    def add(self, task: Task) -> None:
        """Have one more task wait. Raises ValueError when it waits already."""
        self._join(task, 0)

    def put_back(self, task: Task) -> None:
        """Have a task that was popped and could not start wait at its old place.

        Raises KeyError when it never waited, ValueError when it waits already.
        """
        self._join(task, self._retry_of[task.key])

    def push(self, task: Task) -> None:
        """Have a task tried again, at the end of its round. Raises ValueError when it waits."""
        self._num_retries += 1
        self._join(task, self._num_retries)

    def expect(self, keys: Collection[int], expected_s: float) -> None:
        """Sort tasks in again by what they are expected to take now; others are passed over."""
        for key in keys:
            if key not in self._tasks:
                continue
            task = replace(self._tasks[key], expected_s=expected_s)
            line, place = self._lines[task.num_gpus], self._place(task)
            del line[bisect_left(line, self._places[key])]
            insort(line, place)
            self._tasks[key], self._places[key] = task, place

    def remove(self, key: int) -> Task:
        """Forget a task: it is skipped, held back, or done elsewhere. Raises KeyError."""
        task = self._tasks.pop(key)
        line = self._lines[task.num_gpus]
        del line[bisect_left(line, self._places.pop(key))]
        if not line:
            del self._lines[task.num_gpus]
        return task

    def pop(self, fits: Callable[[int], bool], *, is_idle: bool) -> Task | None:
        """Take out the task that starts now; None when there is none, or none may.

        `fits` says whether there is room for so many devices, `is_idle` that nothing runs.
        """
        if not self._packs and not is_idle:
            return None
        for place in sorted(line[0] for line in self._lines.values()):
            if fits(self._tasks[place.key].num_gpus):
                return self.remove(place.key)
        return None

    def _join(self, task: Task, retry: int) -> None:
        if task.num_gpus > self._num_devices:
            raise ValueError(
                f"repeat {task.key} wants {task.num_gpus} devices; there are {self._num_devices}"
            )
        if task.key in self._tasks:
            raise ValueError(f"repeat {task.key} waits already")
        self._retry_of[task.key] = retry
        self._tasks[task.key], self._places[task.key] = task, self._place(task)
        insort(self._lines.setdefault(task.num_gpus, []), self._places[task.key])

    def _place(self, task: Task) -> _Place:
        minus_expected_s = 0.0
        if self._packs:
            minus_expected_s = float("-inf") if task.expected_s is None else -task.expected_s
        retry = self._retry_of[task.key]
        tie = _shuffled(self._seed, task)
        return _Place(task.round, retry, minus_expected_s, tie, task.key)


def _shuffled(seed: int, task: Task) -> int:
    """Return a random number that stays the same for these: an interrupted sweep goes on in the
    order it began with.
    """
    text = f"{seed} {task.round} {task.key}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())

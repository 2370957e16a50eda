"""Decides which of the waiting repeats starts next: in turn, or packed side by side.

Exclusive: rounds one after another, each in a random order of its own, so that drift hits all
trials alike; a trial that others leave too few GPUs for is passed over. Packed: rounds too, in each
the longest expected first, and back-filling: the first in that order that fits now starts, be it of
a later round.

Narrow tasks overtake a wide one that does not fit. After too long a time it is reserved: nothing
else starts until it does. Pure: no clock, no input, no output.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from sweeper.devices.slots import Blocks

PATIENCE = 2.0
"""A wide task may be overtaken for so many times the longest of what it is expected to take, and
what runs meanwhile: draining devices for it keeps some of them idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One repeat that waits to be run."""

    key: int  # id of the repeat in the store
    num_gpus: int
    expected_s: float | None  # how long it will take; None = never ran here
    round: int  # blocks of repeats: every trial runs once per round


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One attempt that holds devices."""

    devices: tuple[int, ...]  # numbers of its slots
    started_s: float
    expected_end_s: float | None  # None = it never ran here

    def end_s(self, now_s: float) -> float:
        """Guess its end: half done without an estimate, any moment when overdue."""
        if self.expected_end_s is None:
            return 2 * now_s - self.started_s
        return max(now_s, self.expected_end_s)


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
    """The repeats that wait; all others wait for `reserved`.

    Raises ValueError for a task that is wider than there are devices: it could never start.
    """

    def __init__(self, tasks: Iterable[Task], *, blocks: Blocks, seed: int, packs: bool) -> None:
        self.reserved: Task | None = None
        self._num_devices, self._seed, self._packs = len(blocks.order), seed, packs
        self._tasks: dict[int, Task] = {}
        self._places: dict[int, _Place] = {}
        self._retry_of: dict[int, int] = {}  # key -> number of its retry, also of those that left
        self._lines: dict[int, list[_Place]] = {}  # width -> sorted; none is empty
        # width -> since when the first in its line is being overtaken
        self._overtaken_since_s: dict[int, float] = {}
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
            if self.reserved and self.reserved.key == key:
                self.reserved = task

    def remove(self, key: int) -> Task:
        """Forget a task: it is skipped, held back, or done elsewhere. Raises KeyError."""
        task = self._tasks.pop(key)
        line = self._lines[task.num_gpus]
        del line[bisect_left(line, self._places.pop(key))]
        if not line:
            del self._lines[task.num_gpus]
            self._overtaken_since_s.pop(task.num_gpus, None)
        if self.reserved and self.reserved.key == key:
            self.reserved = None
        return task

    def pop(
        self, fits: Callable[[int], bool], running: Sequence[Running], now_s: float
    ) -> Task | None:
        """Take out the task that starts now; None when there is none, or none may.

        `fits` says whether there is room for so many devices.
        """
        task = self._choose(fits, running, now_s)
        if task is not None:
            self._overtaken_since_s.pop(task.num_gpus, None)
            self.remove(task.key)
        return task

    def _choose(
        self, fits: Callable[[int], bool], running: Sequence[Running], now_s: float
    ) -> Task | None:
        places = sorted(line[0] for line in self._lines.values())
        heads = [self._tasks[place.key] for place in places]
        if not self._packs:
            # where others use some of the GPUs, narrow ones need not wait for wide ones
            fitting_heads = (head for head in heads if fits(head.num_gpus))
            return None if running else next(fitting_heads, None)
        fitting = {head.num_gpus for head in heads if fits(head.num_gpus)}
        if not fitting:
            return None
        blocked = [head for head in heads if head.num_gpus not in fitting]
        if not self.reserved:
            self.reserved = self._overtaken_too_long(blocked, running, now_s)
        if self.reserved:
            if self.reserved.num_gpus in fitting:
                return self.reserved
            if running:
                return None
            # another sweep has the devices, for who knows how long
            self._overtaken_since_s.pop(self.reserved.num_gpus, None)
            self.reserved = None
        chosen = next(head for head in heads if head.num_gpus in fitting)
        for head in blocked:
            if self._overtakes(chosen, head):
                self._overtaken_since_s.setdefault(head.num_gpus, now_s)
        return chosen

    def _overtakes(self, chosen: Task, other: Task) -> bool:
        # retries may keep arriving in an earlier round
        is_later_retry = self._retry_of[chosen.key] > self._retry_of[other.key]
        return is_later_retry or self._places[chosen.key] > self._places[other.key]

    def _overtaken_too_long(
        self, blocked: Sequence[Task], running: Sequence[Running], now_s: float
    ) -> Task | None:
        overtaken = [task for task in blocked if task.num_gpus in self._overtaken_since_s]
        if not overtaken:
            return None
        task = min(overtaken, key=lambda task: self._overtaken_since_s[task.num_gpus])
        lengths_s = [attempt.end_s(now_s) - attempt.started_s for attempt in running]
        longest_s = max([task.expected_s or 0.0, *lengths_s])
        waited_s = now_s - self._overtaken_since_s[task.num_gpus]
        return task if waited_s > PATIENCE * longest_s else None

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

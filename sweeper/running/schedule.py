"""Decides which of the waiting repeats starts next: in turn, or packed side by side on the devices
that are free.

Exclusive: rounds one after another, each in a random order of its own, so that drift hits all
trials alike. Packed: rounds too, in each the longest expected first, and back-filling: the first in
that order that fits now starts, be it of a later round.

Narrow tasks overtake a wide one that does not fit. After too long a time it gets a reservation, as
in EASY back-filling (Lifka, "The ANL/IBM SP scheduling system", 1995): until its reserved start
only what will have ended by then, or cannot be in its way, starts before it; from then on nothing
does. Pure: no clock, no input, no output.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from sweeper.devices.blocks import Blocks

PATIENCE = 2.0
"""A wide task may be overtaken for so many times the longest of: what it is expected to take, and
what runs meanwhile. Freeing devices for it keeps some of them idle for no longer than the longest,
so it is done so seldom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One repeat that waits to be run."""

    key: int  # id of the repeat in the store
    num_gpus: int
    expected_s: float | None  # how long it will take; none = never ran here
    round: int  # blocks of repeats: every trial runs once per round


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One attempt that holds devices."""

    devices: tuple[int, ...]  # numbers of its slots
    started_s: float
    expected_end_s: float | None  # none = it never ran here

    def end_s(self, now_s: float) -> float:
        """When it is thought to end: without an estimate it counts as half done, when overdue it
        ends any moment.
        """
        return (
            2 * now_s - self.started_s
            if self.expected_end_s is None
            else max(now_s, self.expected_end_s)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What is kept for a task that was overtaken for too long."""

    task: Task
    start_s: float  # from then on nothing starts before it; never moved to later
    block: tuple[int, ...]  # the devices it will probably get


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """A place in the order, and who stands there."""

    round: int
    retried: bool  # retries come last in their round
    # packed: longest first, and what is unknown counts as the longest; exclusive: 0
    minus_expected_s: float
    tie: int  # random
    key: int


class Queue:
    """The repeats that wait. `reservation` tells whom the others give way to.

    Raises ValueError for a task that is wider than there are devices: it could never start.
    """

    def __init__(self, tasks: Iterable[Task], *, blocks: Blocks, seed: int, packs: bool) -> None:
        self.reservation: Reservation | None = None
        self._blocks, self._seed, self._packs = blocks, seed, packs
        self._tasks: dict[int, Task] = {}
        self._places: dict[int, _Place] = {}
        # key -> how many retries had joined with it, 0 of no retry; also of those that left
        self._joined: dict[int, int] = {}
        self._lines: dict[int, list[_Place]] = {}  # width -> sorted; none is empty
        # width -> since when the first in its line is being overtaken
        self._overtaken_since_s: dict[int, float] = {}
        # width and round that may use what was freed for one of them
        self._followers: tuple[int, int] | None = None
        self._num_retries = 0
        for task in tasks:
            self._join(task, 0)
        for line in self._lines.values():
            line.sort()

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, key: int) -> bool:
        return key in self._tasks

    def tasks(self) -> list[Task]:
        """All that wait, in no order."""
        return list(self._tasks.values())

    def add(self, task: Task) -> None:
        """Have one more task wait. Raises ValueError when it waits already."""
        self._join(task, 0)
        self._sort_in(task.num_gpus)

    def put_back(self, task: Task) -> None:
        """Have a task that was popped and could not start after all wait at its old place.

        Raises KeyError when it never waited, ValueError when it waits already.
        """
        self._join(task, self._joined[task.key])
        self._sort_in(task.num_gpus)

    def push(self, task: Task) -> None:
        """Have a task tried again, at the end of its round. Raises ValueError when it waits
        already.
        """
        self._num_retries += 1
        self._join(task, self._num_retries)
        self._sort_in(task.num_gpus)

    def expect(self, keys: Collection[int], expected_s: float) -> None:
        """Have tasks take their places anew by what they are expected to take now; those that do
        not wait are passed over.
        """
        for key in keys:
            if key not in self._tasks:
                continue
            task = replace(self._tasks[key], expected_s=expected_s)
            line, place = self._lines[task.num_gpus], self._place(task)
            del line[bisect_left(line, self._places[key])]
            insort(line, place)
            self._tasks[key], self._places[key] = task, place
            if self.reservation and self.reservation.task.key == key:
                self.reservation = replace(self.reservation, task=task)

    def remove(self, key: int) -> Task:
        """Forget a task that waits: it is skipped, held back, or done elsewhere. Raises KeyError
        when it does not wait.
        """
        task = self._tasks.pop(key)
        line = self._lines[task.num_gpus]
        del line[bisect_left(line, self._places.pop(key))]
        if not line:
            del self._lines[task.num_gpus]
            self._overtaken_since_s.pop(task.num_gpus, None)
        if self.reservation and self.reservation.task.key == key:
            self.reservation = None
        return task

    def pop(
        self, fits: Callable[[int], bool], running: Sequence[Running], now_s: float
    ) -> Task | None:
        """Take out the task that starts now; None when there is none, or none may. `fits`: is there
        room for so many devices?
        """
        task = self._choose(fits, running, now_s)
        if task is not None:
            self._overtaken_since_s.pop(task.num_gpus, None)
            self.remove(task.key)
        return task

    def _choose(
        self, fits: Callable[[int], bool], running: Sequence[Running], now_s: float
    ) -> Task | None:
        heads = [
            self._tasks[place.key] for place in sorted(line[0] for line in self._lines.values())
        ]
        if not self._packs:
            return heads[0] if heads and not running and fits(heads[0].num_gpus) else None
        fitting = {head.num_gpus for head in heads if fits(head.num_gpus)}
        if not fitting:
            return None
        if not self.reservation:
            self.reservation = self._reservation(
                [head for head in heads if head.num_gpus not in fitting], running, now_s
            )
        if self.reservation and self._is_in_vain(self.reservation, fitting, running):
            self._overtaken_since_s.pop(self.reservation.task.num_gpus, None)
            self.reservation = None
        if self.reservation:
            return self._choose_around(self.reservation, heads, fitting, running, now_s)
        chosen = self._follower(fitting) or next(head for head in heads if head.num_gpus in fitting)
        for head in heads:
            if head.num_gpus not in fitting and self._is_overtaken(head, chosen):
                self._overtaken_since_s.setdefault(head.num_gpus, now_s)
        return chosen

    def _is_overtaken(self, task: Task, by: Task) -> bool:
        return (
            self._places[by.key] > self._places[task.key]
            or self._joined[by.key] > self._joined[task.key]
        )

    def _reservation(
        self, blocked: Sequence[Task], running: Sequence[Running], now_s: float
    ) -> Reservation | None:
        """For the one that has been overtaken for longest, if that is too long."""
        overtaken = [task for task in blocked if task.num_gpus in self._overtaken_since_s]
        if not overtaken:
            return None
        task = min(overtaken, key=lambda task: self._overtaken_since_s[task.num_gpus])
        longest_s = max(
            [
                task.expected_s or 0.0,
                *(attempt.end_s(now_s) - attempt.started_s for attempt in running),
            ]
        )
        if now_s - self._overtaken_since_s[task.num_gpus] <= PATIENCE * longest_s:
            return None
        free_at_s = {
            device: attempt.end_s(now_s) for attempt in running for device in attempt.devices
        }

        def start_s(block: tuple[int, ...]) -> float:
            return sorted(free_at_s.get(device, now_s) for device in block)[task.num_gpus - 1]

        block = min(self._blocks.groups(task.num_gpus), key=start_s)
        return Reservation(task=task, start_s=start_s(block), block=block)

    def _is_in_vain(
        self, reservation: Reservation, fitting: set[int], running: Sequence[Running]
    ) -> bool:
        """Nothing of ours is in its way, and yet there is no room: somebody else has the devices,
        for who knows how long.
        """
        width = reservation.task.num_gpus
        return width not in fitting and self._blocks.fits(
            width, _left_by(running, reservation.block)
        )

    def _choose_around(
        self,
        reservation: Reservation,
        heads: Sequence[Task],
        fitting: set[int],
        running: Sequence[Running],
        now_s: float,
    ) -> Task | None:
        """The task with the reservation if it fits, else the first that does not delay it."""
        reserved = reservation.task
        if reserved.num_gpus in fitting:
            self._followers = (reserved.num_gpus, reserved.round)
            return reserved
        if now_s >= reservation.start_s:
            return None
        free = _left_by(running, reservation.block)
        found: list[_Place] = []
        for head in heads:
            width = head.num_gpus
            if width in fitting and not self._blocks.fits(width, free):
                found.append(self._places[head.key])  # there is room for it elsewhere only
            elif width in fitting and (
                place := self._first_within(width, reservation.start_s - now_s)
            ):
                found.append(place)
        return self._tasks[min(found).key] if found else None

    def _first_within(self, width: int, limit_s: float) -> _Place | None:
        """The first in a line that is expected to take no longer."""
        line = self._lines[width]
        index = 0
        while index < len(line):
            place = line[index]
            if -limit_s <= place.minus_expected_s:
                return place
            within = _Place(place.round, place.retried, -limit_s, -1, -1)
            index = max(index + 1, bisect_left(line, within, lo=index))
        return None

    def _follower(self, fitting: set[int]) -> Task | None:
        """Devices were freed for one wide task: others of its width and round use that too, so that
        it is paid for once.
        """
        if self._followers is None:
            return None
        width, round_ = self._followers
        if width in fitting and (place := self._lines[width][0]).round <= round_:
            return self._tasks[place.key]
        self._followers = None
        return None

    def _join(self, task: Task, joined: int) -> None:
        """At the end of its line; `joined` is 0 for what is no retry."""
        num_devices = len(self._blocks.order)
        if task.num_gpus > num_devices:
            raise ValueError(
                f"repeat {task.key} wants {task.num_gpus} devices; there are {num_devices}"
            )
        if task.key in self._tasks:
            raise ValueError(f"repeat {task.key} waits already")
        self._joined[task.key] = joined
        self._tasks[task.key], self._places[task.key] = task, self._place(task)
        self._lines.setdefault(task.num_gpus, []).append(self._places[task.key])

    def _sort_in(self, width: int) -> None:
        """The last that joined this line."""
        line = self._lines[width]
        insort(line, line.pop())

    def _place(self, task: Task) -> _Place:
        minus_expected_s = 0.0
        if self._packs:
            minus_expected_s = float("-inf") if task.expected_s is None else -task.expected_s
        return _Place(
            task.round,
            self._joined[task.key] > 0,
            minus_expected_s,
            _shuffled(self._seed, task),
            task.key,
        )


def _left_by(running: Sequence[Running], block: tuple[int, ...]) -> set[int]:
    """What of a block these do not hold."""
    return set(block).difference(*(attempt.devices for attempt in running))


def _shuffled(seed: int, task: Task) -> int:
    """A number that is random but for these: an interrupted sweep goes on in the order it began
    with.
    """
    return int.from_bytes(
        hashlib.blake2b(f"{seed} {task.round} {task.key}".encode(), digest_size=8).digest()
    )

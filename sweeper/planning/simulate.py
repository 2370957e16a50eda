"""Plays a sweep through without running it, to find how long it takes and what runs when."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from sweeper.devices.blocks import Blocks
from sweeper.running.schedule import Queue, Running, Task


class Waiting(Protocol):
    """A `Queue`, or another policy to compare it with."""

    def __len__(self) -> int: ...

    def pop(
        self, fits: Callable[[int], bool], running: Sequence[Running], now_s: float
    ) -> Task | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One task that was played."""

    task: Task
    devices: tuple[int, ...]
    start_s: float
    end_s: float


def simulate(
    waiting: Waiting,
    durations_s: Mapping[int, float],
    blocks: Blocks,
    *,
    running: Sequence[Running] = (),
    now_s: float = 0.0,
) -> list[Played]:
    """Play until nothing waits; `durations_s` by key of the task.

    Attempts that run already end when they are expected to. Raises ValueError when something waits
    that never starts.
    """
    free = set(blocks.order)
    ends: list[tuple[float, int, Running]] = []
    for number, attempt in enumerate(running):
        free.difference_update(attempt.devices)
        heapq.heappush(ends, (attempt.end_s(now_s), number, attempt))
    played: list[Played] = []

    def fits(num_gpus: int) -> bool:
        return len(ends) < blocks.most_at_once and blocks.fits(num_gpus, free)

    while waiting:
        while task := waiting.pop(fits, [attempt for _, _, attempt in ends], now_s):
            taken = blocks.rooms(task.num_gpus, free)[0][: task.num_gpus]
            free.difference_update(taken)
            end_s = now_s + durations_s[task.key]
            expected_end_s = None if task.expected_s is None else now_s + task.expected_s
            started = Running(devices=taken, started_s=now_s, expected_end_s=expected_end_s)
            heapq.heappush(ends, (end_s, len(running) + len(played), started))
            played.append(Played(task=task, devices=taken, start_s=now_s, end_s=end_s))
        if not ends:
            if waiting:
                raise ValueError(f"{len(waiting)} tasks wait for devices that nobody holds")
            break
        now_s, _, ended = heapq.heappop(ends)
        free.update(ended.devices)
    return played


def remaining_s(
    tasks: Sequence[Task],
    *,
    blocks: Blocks,
    seed: int,
    packs: bool,
    running: Sequence[Running] = (),
    now_s: float = 0.0,
) -> float | None:
    """Return how long all that waits and runs will still take; None when no duration is known.

    Tasks without an estimate count as the mean of the others. Costs some 50 us per task.
    """
    if not tasks and not running:
        return 0.0
    known_s = [task.expected_s for task in tasks if task.expected_s is not None]
    for attempt in running:
        if attempt.expected_end_s is not None:
            known_s.append(attempt.expected_end_s - attempt.started_s)
    if not known_s:
        return None
    mean_s = fmean(known_s)
    durations_s = {}
    for task in tasks:
        durations_s[task.key] = mean_s if task.expected_s is None else task.expected_s
    queue = Queue(tasks, blocks=blocks, seed=seed, packs=packs)
    played = simulate(queue, durations_s, blocks, running=running, now_s=now_s)
    ends_s = [attempt.end_s(now_s) for attempt in running] + [one.end_s for one in played]
    return max(0.0, max(ends_s) - now_s)

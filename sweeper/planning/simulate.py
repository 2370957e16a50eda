"""Estimates how long a sweep will take."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import sqlalchemy as sa

from scalemark.text.wording import duration_text
from simulator.costs.work import step_work
from store.reading.earlier import Durations, recorded_durations_s
from store.reading.queries import Row
from sweeper.devices.slots import Blocks
from sweeper.planning.plan import Plan
from sweeper.running.schedule import Queue, Running, Task


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

    Tasks without an estimate count as the mean of the others. Costs some 50 us per task. Raises
    ValueError when something waits that never starts.
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
    waiting = Queue(tasks, blocks=blocks, seed=seed, packs=packs)
    free = set(blocks.order)
    begun_s, num_begun = now_s, 0
    ends: list[tuple[float, int, Running]] = []
    for attempt in running:
        free.difference_update(attempt.devices)
        heapq.heappush(ends, (attempt.end_s(now_s), num_begun, attempt))
        num_begun += 1

    def fits(num_gpus: int) -> bool:
        return len(ends) < blocks.most_at_once and blocks.fits(num_gpus, free)

    while waiting or ends:
        while task := waiting.pop(fits, [attempt for _, _, attempt in ends], now_s):
            taken = blocks.rooms(task.num_gpus, free)[0][: task.num_gpus]
            free.difference_update(taken)
            end_s = now_s + (mean_s if task.expected_s is None else task.expected_s)
            expected_end_s = None if task.expected_s is None else end_s
            started = Running(devices=taken, started_s=now_s, expected_end_s=expected_end_s)
            heapq.heappush(ends, (end_s, num_begun, started))
            num_begun += 1
        if not ends:
            raise ValueError(f"{len(waiting)} tasks wait for devices that nobody holds")
        now_s, _, ended = heapq.heappop(ends)
        free.update(ended.devices)
    return max(0.0, now_s - begun_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The expected time of all attempts of a plan, one after another."""

    expected_s: float  # of those with recorded durations
    num_attempts: int
    num_unknown: int  # attempts without


class Estimate(Durations):
    """Durations of attempts and of whole plans."""

    def __init__(self, recorded: Sequence[Row] = ()) -> None:
        super().__init__(recorded, step_work)

    @classmethod
    def of(cls, engine: sa.Engine | None, machine_key: str) -> Estimate:
        """Read the durations on this machine; without a database there are none."""
        return cls(recorded_durations_s(engine, machine_key) if engine else ())

    def total(self, plan: Plan) -> Total:
        known_s, num_unknown = 0.0, 0
        for trial in plan.trials:
            expected_s = self.expected_s(trial.spec)
            if expected_s is None:
                num_unknown += trial.num_repeats
            else:
                known_s += trial.num_repeats * expected_s
        return Total(expected_s=known_s, num_attempts=plan.num_attempts, num_unknown=num_unknown)

    def describe(self, plan: Plan) -> str:
        """Return one line for people; empty when nothing is to be run."""
        total = self.total(plan)
        num, unknown = total.num_attempts, total.num_unknown
        if not num:
            return ""
        attempts = "1 attempt to run" if num == 1 else f"{num} attempts to run"
        if unknown == num:
            return f"{attempts}; no recorded durations of such trials on this machine: no estimate"
        text = f"{attempts}; expected: {duration_text(total.expected_s)} one after another"
        if unknown:
            rest = f"no recorded durations for the other {unknown}: no estimate"
            text += f" for {num - unknown} of them; {rest}"
        return text


_SHARE_OF_A_CORE = 0.005  # what estimating may cost


class Eta:
    """Estimates when all of a sweep will have ended, by `remaining_s`."""

    def __init__(self, blocks: Blocks, seed: int, packs: bool, clock: Callable[[], float]) -> None:
        self._remaining_s = partial(remaining_s, blocks=blocks, seed=seed, packs=packs)
        self._clock = clock
        self._seen_s: list[float] = []
        self._end_s: float | None = None
        self._next_s = clock()

    def left_s(self) -> float | None:
        """Return the seconds left; None while no duration is known."""
        return None if self._end_s is None else max(0.0, self._end_s - self._clock())

    def completed(self, duration_s: float) -> None:
        """Note a duration; attempts without an estimate are expected to take as long."""
        self._seen_s.append(duration_s)

    def update(self, waiting: Sequence[Task], running: Sequence[Running]) -> None:
        """Call when something has ended."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        usual_s = fmean(self._seen_s) if self._seen_s else None
        tasks = []
        for task in waiting:
            if task.expected_s is None:
                task = replace(task, expected_s=usual_s)
            tasks.append(task)
        left_s = self._remaining_s(tasks, running=running, now_s=now_s)
        self._end_s = None if left_s is None else now_s + left_s
        self._next_s = self._clock() + (self._clock() - now_s) / _SHARE_OF_A_CORE

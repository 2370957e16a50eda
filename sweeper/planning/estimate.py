"""Estimates how long a sweep will take, from the durations of earlier attempts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import sqlalchemy as sa

from scalemark.text.wording import duration_text
from simulator.costs.step import step_work
from store.reading.earlier import Durations, recorded_durations_s
from store.reading.queries import Row
from sweeper.devices.slots import Blocks
from sweeper.live.progress import Started
from sweeper.planning.plan import Plan
from sweeper.running.schedule import Task


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
    """Estimates when all of a sweep will have ended: what is left, shared evenly by the devices."""

    def __init__(self, blocks: Blocks, clock: Callable[[], float]) -> None:
        self._num_devices, self._most_at_once = len(blocks.order), blocks.most_at_once
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

    def update(self, waiting: Sequence[Task], running: Sequence[Started]) -> None:
        """Call when something has ended."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._end_s = None
        expected_s = [task.expected_s for task in waiting]
        expected_s += [started.expected_s for started in running]
        known_s = [length_s for length_s in expected_s if length_s is not None]
        if self._seen_s or known_s or not expected_s:
            usual_s = fmean(self._seen_s or known_s or [0.0])
            self._end_s = now_s + self._remaining_s(waiting, running, usual_s, now_s)
        self._next_s = self._clock() + (self._clock() - now_s) / _SHARE_OF_A_CORE

    def _remaining_s(
        self, waiting: Sequence[Task], running: Sequence[Started], usual_s: float, now_s: float
    ) -> float:
        total_s = device_s = longest_s = 0.0
        lengths = []
        for task in waiting:
            lengths.append((task.num_gpus, task.expected_s, 0.0))
        for started in running:
            lengths.append((len(started.devices), started.expected_s, now_s - started.started_s))
        for num_devices, expected_s, passed_s in lengths:
            length_s = max(0.0, (usual_s if expected_s is None else expected_s) - passed_s)
            total_s += length_s
            device_s += num_devices * length_s
            longest_s = max(longest_s, length_s)
        return max(total_s / self._most_at_once, device_s / self._num_devices, longest_s)

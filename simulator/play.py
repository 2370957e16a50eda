"""Plays the steps of a trial in virtual time, by the trainer's own loop: warm-up until it is
steady, then the window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from costs.step import Costs
from scalemark.records.measurement import StepSample
from scalemark.records.trial import TrialSpec
from simulator import noise
from trainer import timing

WARMING = (3.0, 1.5, 1.2)  # so many times longer the first calls take: allocators and caches fill


@dataclass(slots=True)
class VirtualClock:
    """Time that passes only when it is told to."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What was played of one process."""

    timed: timing.Timed
    process_factor: float


def play(
    spec: TrialSpec,
    truth: Costs,
    random: np.random.Generator,
    on_sample: Callable[[StepSample], None],
    hang: Callable[[], None],
) -> Played:
    """`truth`: with what is planted. `hang` is called half-way through the measured steps where
    that is planted.
    """
    planted = spec.planted_values
    factor = noise.process_factor(random, planted)
    effort = timing.Effort(
        min_warm_up_steps=spec.min_warm_up_steps,
        num_steps=spec.num_steps,
        min_window_s=spec.min_window_s,
        steps_per_call=spec.steps_per_execution,
    )
    num_steps = _num_measured(effort, truth.step_s * factor)
    calls = _Calls(
        truth,
        factor,
        noise.step_factors(random, planted, spec.min_warm_up_steps + num_steps),
        spec.steps_per_execution,
    )
    if planted.get("hang"):
        calls.hangs_after = spec.min_warm_up_steps + num_steps // 2
        calls.hang = hang
    timed = timing.run_steps(
        next_batch=calls.next_batch,
        step=calls.step,
        synchronize=lambda: None,
        effort=effort,
        on_sample=on_sample,
        clock=calls.clock,
        cpu_clock=lambda: 0.0,
    )
    return Played(timed=timed, process_factor=factor)


def _num_measured(effort: timing.Effort, step_s: float) -> int:
    """As many as there will be, but for the noise."""
    return max(effort.num_steps, math.ceil(effort.min_window_s / step_s))


class _Calls:
    """The training function and its input, as far as they take time."""

    hangs_after: float = math.inf  # so many steps

    def __init__(
        self, truth: Costs, process_factor: float, factors: Iterator[float], steps_per_call: int
    ) -> None:
        self.clock = VirtualClock()
        self.hang: Callable[[], None] = lambda: None
        self._busy_s = truth.busy_s * process_factor
        self._wait_s = max(0.0, truth.step_s - truth.busy_s) * process_factor
        self._factors, self._steps_per_call = factors, steps_per_call
        self._warming = iter(WARMING)
        self._num_steps = 0
        self._factor = 0.0  # of all steps of the call

    def next_batch(self) -> None:
        warming = next(self._warming, 1.0)
        self._factor = warming * sum(next(self._factors) for _ in range(self._steps_per_call))
        self.clock.now_s += self._wait_s * self._factor

    def step(self, batch: None) -> float:
        """No loss: nothing is learned."""
        self.clock.now_s += self._busy_s * self._factor
        self._num_steps += self._steps_per_call
        if self._num_steps >= self.hangs_after:
            self.hang()
        return math.nan

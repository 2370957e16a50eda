"""Plays the steps of a trial in virtual time by the trainer's own loop, with noise by seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from scalemark.records.measurement import StepSample
from scalemark.records.trial import TrialSpec
from simulator.costs.step import Costs
from trainer import timing

WARMING = (3.0, 1.5, 1.2)  # so many times longer the first calls take: allocators and caches fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The steps of one process."""

    timed: timing.Timed
    process_factor: float


def play(
    spec: TrialSpec,
    truth: Costs,
    random: np.random.Generator,
    on_sample: Callable[[StepSample], None],
    hang: Callable[[], None],
) -> Played:
    """Play the steps of `truth`, which has the injected faults.

    `hang` is called half-way through the measured steps, where that is injected.
    """
    faults = spec.injected_values
    factor = process_factor(random, faults)
    effort = timing.Effort(
        min_warm_up_steps=spec.min_warm_up_steps,
        num_steps=spec.num_steps,
        min_window_s=spec.min_window_s,
        steps_per_call=spec.steps_per_execution,
    )
    # as many as there will be, but for the noise
    num_steps = max(spec.num_steps, math.ceil(spec.min_window_s / (truth.step_s * factor)))
    factors = step_factors(random, faults, spec.min_warm_up_steps + num_steps)
    calls = _Calls(truth, factor, factors, spec.steps_per_execution)
    if faults.get("hang"):
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


class _Calls:
    """The training function and its input, as far as they take time, which only they let pass."""

    hangs_after: float = math.inf  # so many steps

    def __init__(
        self, truth: Costs, process_factor: float, factors: Iterator[float], steps_per_call: int
    ) -> None:
        self.hang: Callable[[], None] = lambda: None
        self._now_s = 0.0
        self._busy_s = truth.busy_s * process_factor
        self._wait_s = max(0.0, truth.step_s - truth.busy_s) * process_factor
        self._factors, self._steps_per_call = factors, steps_per_call
        self._warming = iter(WARMING)
        self._num_steps = 0
        self._factor = 0.0  # of all steps of the call

    def clock(self) -> float:
        return self._now_s

    def next_batch(self) -> None:
        warming = next(self._warming, 1.0)
        self._factor = warming * sum(next(self._factors) for _ in range(self._steps_per_call))
        self._now_s += self._wait_s * self._factor

    def step(self, batch: None) -> float:
        """Let a call pass; its loss is not known, as nothing is learned."""
        self._now_s += self._busy_s * self._factor
        self._num_steps += self._steps_per_call
        if self._num_steps >= self.hangs_after:
            self.hang()
        return math.nan


AUTOCORRELATION = 0.3  # of the noise of neighboring steps: steps are no independent samples


def process_factor(random: np.random.Generator, injected: Mapping[str, float]) -> float:
    """Draw the factor of all step times of one process: log-normal, of mean 1."""
    spread = _log_spread(injected.get("process_noise", 0.0))
    return math.exp(spread * random.standard_normal() - spread**2 / 2)


def step_factors(
    random: np.random.Generator, injected: Mapping[str, float], num_steps: int
) -> Iterator[float]:
    """Yield the factors of the steps of one process without end, of mean 1.

    The drift grows over `num_steps`, from half of it below the mean to half of it above.
    """
    spread, drift = _log_spread(injected.get("noise", 0.0)), injected.get("drift", 0.0)
    fresh = math.sqrt(1 - AUTOCORRELATION**2)
    noise = random.standard_normal()
    for number in itertools.count():
        passed = min(1.0, number / max(1, num_steps - 1))
        yield math.exp(spread * noise - spread**2 / 2) * (1 + drift * (passed - 0.5))
        noise = AUTOCORRELATION * noise + fresh * random.standard_normal()


def step_times(
    random: np.random.Generator, step_s: float, injected: Mapping[str, float], num_steps: int
) -> list[float]:
    """Draw the step times of one process, whose mean over all processes is `step_s`."""
    mean_s = step_s * process_factor(random, injected)
    factors = step_factors(random, injected, num_steps)
    return [mean_s * factor for factor in itertools.islice(factors, num_steps)]


def _log_spread(deviation: float) -> float:
    """Return the spread of the logarithm for a standard deviation over the mean."""
    return math.sqrt(math.log1p(deviation**2))

"""Runs the training function: warm-up until the steady state is seen, then the measured window."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, SupportsFloat, TypeVar

from scalemark.records.measurement import StepSample, counted_calls
from scalemark.records.outcomes import Phase

Batches = TypeVar("Batches")

STEADY_CALLS = 3  # the last so many calls are compared with as many before them
STEADY_TOLERANCE = 0.1  # medians of both may differ by this share
# Give up after so many times the least number of warm-up calls, but not before so many, and
# measure all the same: the verdict says so.
MAX_WARM_UP_FACTOR = 5
MAX_WARM_UP_CALLS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The number of steps to run; they are rounded up to whole calls."""

    min_warm_up_steps: int
    num_steps: int  # measured, at least
    min_window_s: float
    steps_per_call: int = 1
    min_warm_up_s: float = 0.0

    def calls(self, num_steps: int) -> int:
        return -(-num_steps // self.steps_per_call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """All samples of an attempt, and what only the loop itself knows."""

    samples: list[StepSample]  # warm-up and measurement, in order
    steady: bool  # the steady state was seen before the window began
    window_start_s: float  # on the clock
    window_s: float  # first measured step to devices idle after the last
    cpu_s: float | None  # CPU seconds of the process in the window; None where not known

    def measured(self) -> list[StepSample]:
        return [sample for sample in self.samples if sample.phase == Phase.MEASURE]

    def counted(self) -> list[StepSample]:
        """Return the measured calls whose durations count."""
        return counted_calls(self.samples)

    def step_durations_s(self) -> list[float]:
        """Return the mean step duration of each call that counts."""
        return [sample.duration_s / sample.num_steps for sample in self.counted()]


def run_steps(
    *,
    next_batch: Callable[[], Batches],
    step: Callable[[Batches], SupportsFloat],
    synchronize: Callable[[], None],
    effort: Effort,
    on_sample: Callable[[StepSample], None],
    on_window: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    cpu_clock: Callable[[], float] = time.process_time,
) -> Timed:
    """Warm up, synchronize the devices, measure, synchronize again.

    `step` starts a call and returns its loss, which `float` waits for. The loss of a call is read
    after the next was started, so that a GPU works on its backward pass while the host starts the
    next call. The window, not the sum of its calls, makes the throughput, because a loss may be
    there before its update is done. `on_window` is called when the window begins and when it ends;
    `on_sample` between calls, outside every duration.
    """
    loop = _Loop(next_batch, step, synchronize, effort.steps_per_call, on_sample, clock)
    min_calls = effort.calls(effort.min_warm_up_steps)
    max_calls = max(MAX_WARM_UP_FACTOR * min_calls, MAX_WARM_UP_CALLS) if min_calls else 0
    durations_s = loop.durations_s
    while (
        len(durations_s) < min_calls
        or clock() - loop.begin < effort.min_warm_up_s
        or (len(durations_s) < max_calls and not is_steady(durations_s))
    ):
        loop.take(Phase.WARM_UP)
    steady = is_steady(durations_s)
    loop.drain()
    on_window()
    window_start, cpu_start = clock(), cpu_clock()
    num_calls = effort.calls(effort.num_steps)
    num_warm_up_calls = len(durations_s)
    while (
        len(durations_s) - num_warm_up_calls < num_calls
        or clock() - window_start < effort.min_window_s
    ):
        loop.take(Phase.MEASURE)
    loop.drain()
    window_s, cpu_s = clock() - window_start, cpu_clock() - cpu_start
    on_window()
    return Timed(
        samples=loop.samples,
        steady=steady,
        window_start_s=window_start,
        window_s=window_s,
        cpu_s=cpu_s,
    )


class _Loop(Generic[Batches]):
    """Takes one call after the other, and reads the loss of each after the next was started."""

    def __init__(
        self,
        next_batch: Callable[[], Batches],
        step: Callable[[Batches], SupportsFloat],
        synchronize: Callable[[], None],
        steps_per_call: int,
        on_sample: Callable[[StepSample], None],
        clock: Callable[[], float],
    ) -> None:
        self._next_batch, self._step, self._synchronize = next_batch, step, synchronize
        self._steps_per_call, self._on_sample, self._clock = steps_per_call, on_sample, clock
        self.samples: list[StepSample] = []  # of calls whose loss was read
        self.durations_s: list[float] = []  # of all calls started
        self._pending: list[tuple[StepSample, SupportsFloat]] = []  # one call at most
        self.begin = clock()

    def take(self, phase: Phase) -> None:
        start = self._clock()
        batch = self._next_batch()
        fetched = self._clock()
        loss = self._step(batch)
        finished = self._read_pending()
        end = self._clock()
        sample = StepSample(
            step=self._steps_per_call * len(self.durations_s),
            phase=phase,
            start_s=start - self.begin,
            duration_s=end - start,
            data_wait_s=fetched - start,
            loss=None,
            num_steps=self._steps_per_call,
        )
        self._pending.append((sample, loss))
        self.durations_s.append(sample.duration_s)
        self._keep(finished)

    def drain(self) -> None:
        """Wait for the call that was started last, and for the devices."""
        finished = self._read_pending()
        self._synchronize()
        self._keep(finished)

    def _read_pending(self) -> list[StepSample]:
        """Return the call that was started last, once its loss is there."""
        finished = [replace(sample, loss=_finite(float(loss))) for sample, loss in self._pending]
        self._pending.clear()
        return finished

    def _keep(self, finished: list[StepSample]) -> None:
        self.samples.extend(finished)
        for sample in finished:
            self._on_sample(sample)


def _finite(loss: float) -> float | None:
    return loss if math.isfinite(loss) else None


def is_steady(durations_s: Sequence[float]) -> bool:
    """Say whether the last calls differ from those before by no more than their own noise.

    The first calls of a trial may take seven times the median for longer than two steps.
    """
    if len(durations_s) < 2 * STEADY_CALLS:
        return False
    last, before = durations_s[-STEADY_CALLS:], durations_s[-2 * STEADY_CALLS : -STEADY_CALLS]
    center = statistics.median(last)
    slowest, fastest = max(last), min(last)
    noise = min(slowest - center, center - fastest)  # one hiccup is no noise
    return abs(center - statistics.median(before)) <= max(STEADY_TOLERANCE * center, noise)


def process_age_s() -> float:
    """Return the seconds since the kernel started this process, to 10 ms."""
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started_s = int(after_name[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s

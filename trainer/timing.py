"""Runs the training step: warm-up until the steady state is seen, then the measured window."""

from __future__ import annotations

import math
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from store.records import Phase, StepSample

Batches = TypeVar("Batches")

STEADY_STEPS = 3  # so many consecutive steps must agree
STEADY_TOLERANCE = 0.2  # within this share of their median
MAX_WARM_UP_STEPS_FACTOR = 5  # give up after so many times the least number of warm-up steps
JITTER_FACTOR = 1.4826  # median absolute deviation -> standard deviation of a normal distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """All step samples of an attempt, and what only the loop itself could know."""

    samples: list[StepSample]  # warm-up and measurement, in order
    steady: bool  # the steady state was seen before the window began
    window_s: float  # first measured step to devices idle after the last
    cpu_s: float  # CPU seconds of the process in the window

    def measured(self) -> list[StepSample]:
        return [sample for sample in self.samples if sample.phase == Phase.MEASURE]


def run_steps(
    *,
    next_batch: Callable[[], Batches],
    step: Callable[[Batches], float],
    synchronize: Callable[[], None],
    min_warm_up_steps: int,
    num_steps: int,
    on_step: Callable[[StepSample], None],
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] | None = None,
) -> Timed:
    """Warm up, synchronize the devices, measure `num_steps`, synchronize again.

    `step` returns the loss after reading it to the host. On a GPU the loss may be there before the update is done, so the
    window, not the sum of its steps, makes the throughput. `on_step` is called between steps, outside every duration.
    """
    cpu_clock = cpu_clock or _cpu_s
    samples: list[StepSample] = []
    begin = clock()

    def take(phase: Phase) -> None:
        start = clock()
        batch = next_batch()
        fetched = clock()
        loss = step(batch)
        end = clock()
        samples.append(
            StepSample(
                step=len(samples),
                phase=phase,
                start_s=start - begin,
                duration_s=end - start,
                data_wait_s=fetched - start,
                loss=loss if math.isfinite(loss) else None,
            )
        )
        on_step(samples[-1])

    max_warm_up_steps = MAX_WARM_UP_STEPS_FACTOR * min_warm_up_steps
    while len(samples) < min_warm_up_steps or (
        len(samples) < max_warm_up_steps and not is_steady([sample.duration_s for sample in samples])
    ):
        take(Phase.WARM_UP)
    steady = is_steady([sample.duration_s for sample in samples])
    synchronize()
    window_start, cpu_start = clock(), cpu_clock()
    for _ in range(num_steps):
        take(Phase.MEASURE)
    synchronize()
    return Timed(samples=samples, steady=steady, window_s=clock() - window_start, cpu_s=cpu_clock() - cpu_start)


def is_steady(durations_s: Sequence[float]) -> bool:
    """The last few steps agree with each other."""
    last = durations_s[-STEADY_STEPS:]
    if len(last) < STEADY_STEPS:
        return False
    center = statistics.median(last)
    return max(abs(duration - center) for duration in last) <= STEADY_TOLERANCE * center


def jitter_s(durations_s: Sequence[float]) -> float:
    """1.4826 x median absolute deviation, as tf_cnn_benchmarks defines jitter."""
    center = statistics.median(durations_s)
    return JITTER_FACTOR * statistics.median(abs(duration - center) for duration in durations_s)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

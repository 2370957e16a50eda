"""Times training steps, makes a measurement of them, and judges whether it may be quoted."""

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, SupportsFloat, TypeVar

import numpy as np

from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind, said_of_errors
from scalemark.records.measurement import (
    INJECTED_REASON,
    MAX_FOREIGN_SHARE,
    NOISE,
    GpuTelemetry,
    Measurement,
    Phase,
    StepSample,
    Verdict,
    counted_calls,
    injected_text,
    said_of_others,
)
from scalemark.records.trial import AXES, TrialSpec
from scalemark.stats.within_process import FEWEST_STEPS, interval_within, median_deviation
from scalemark.text.wording import counted

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

    def step_durations_s(self) -> list[float]:
        """Return the mean step duration of each measured call whose duration counts."""
        return [call.duration_s / call.num_steps for call in counted_calls(self.samples)]


def run_steps(
    clock: "StepClock", next_batch: Callable[[], Batches], step: Callable[[Batches], SupportsFloat]
) -> Timed:
    """Take all calls that the clock wants; `step` starts one, and `float` waits for its loss."""
    for phase in clock.phases():
        start = clock.now()
        batch = next_batch()
        fetched = clock.now()
        clock.add(phase, start, fetched, step(batch))
    return clock.timed


@dataclass(kw_only=True)
class StepClock:
    """Times calls, whoever takes them: warm-up, devices idle, measured calls, devices idle.

    The loss of a call is read after the next was started, so that a GPU works meanwhile. The
    window, not the sum of its calls, makes the throughput, because a loss may be there before its
    update is done. `on_window` is called as the window begins and ends; `on_sample` between calls.
    """

    synchronize: Callable[[], None]
    effort: Effort
    on_sample: Callable[[StepSample], None]
    on_window: Callable[[], None] = lambda: None
    now: Callable[[], float] = time.monotonic
    cpu_now: Callable[[], float] = time.process_time
    timed: Timed = field(init=False)  # all of it, once `phases` has ended

    def __post_init__(self) -> None:
        self._samples: list[StepSample] = []  # of calls whose loss was read
        self._durations_s: list[float] = []  # of all calls
        self._pending: list[tuple[StepSample, SupportsFloat]] = []  # one call at most
        self._begin = self.now()

    def phases(self) -> Iterator[Phase]:
        """Yield the phase of each call that is wanted; `add` takes that call before the next."""
        effort, durations_s = self.effort, self._durations_s
        min_calls = effort.calls(effort.min_warm_up_steps)
        max_calls = 0
        if min_calls:
            max_calls = max(MAX_WARM_UP_FACTOR * min_calls, MAX_WARM_UP_CALLS)
        while (
            len(durations_s) < min_calls
            or self.now() - self._begin < effort.min_warm_up_s
            or (len(durations_s) < max_calls and not is_steady(durations_s))
        ):
            yield Phase.WARM_UP
        steady = is_steady(durations_s)
        self._drain()
        self.on_window()
        window_start, cpu_start = self.now(), self.cpu_now()
        num_calls = effort.calls(effort.num_steps)
        num_warm_up_calls = len(durations_s)
        while (
            len(durations_s) - num_warm_up_calls < num_calls
            or self.now() - window_start < effort.min_window_s
        ):
            yield Phase.MEASURE
        self._drain()
        window_s, cpu_s = self.now() - window_start, self.cpu_now() - cpu_start
        self.on_window()
        self.timed = Timed(
            samples=self._samples,
            steady=steady,
            window_start_s=window_start,
            window_s=window_s,
            cpu_s=cpu_s,
        )

    def add(self, phase: Phase, start: float, fetched: float, loss: SupportsFloat) -> None:
        """Take a call that was started, at `start` by the clock; its batch was there at `fetched`.

        It ends when the loss of the call before is there.
        """
        finished = self._read_pending()
        end = self.now()
        sample = StepSample(
            step=self.effort.steps_per_call * len(self._durations_s),
            phase=phase,
            start_s=start - self._begin,
            duration_s=end - start,
            data_wait_s=fetched - start,
            loss=None,
            num_steps=self.effort.steps_per_call,
        )
        self._pending.append((sample, loss))
        self._durations_s.append(sample.duration_s)
        self._keep(finished)

    def _drain(self) -> None:
        """Wait for the call that was started last, and for the devices."""
        finished = self._read_pending()
        self.synchronize()
        self._keep(finished)

    def _read_pending(self) -> list[StepSample]:
        """Return the call that was started last, once its loss is there."""
        finished = [replace(sample, loss=_finite(float(loss))) for sample, loss in self._pending]
        self._pending.clear()
        return finished

    def _keep(self, finished: list[StepSample]) -> None:
        self._samples.extend(finished)
        for sample in finished:
            self.on_sample(sample)


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


NUM_MEDIANS_APART = 3.0  # standard errors between two medians that noise does not explain
LAST_LOSSES = 5


def measurement(
    timed: Timed,
    *,
    items_per_step: float,  # of all replicas
    first_loss: float | None,
    knows_data_wait: bool = True,
    **known: Any,
) -> Measurement:
    """Make a Measurement of the steps; `known` are its fields that they do not tell. `first_loss`
    may be infinite.
    """
    durations_s = timed.step_durations_s()
    measured = timed.measured()
    num_steps = sum(sample.num_steps for sample in measured)
    throughput = items_per_step * num_steps / timed.window_s
    low, high = interval_within(throughput, durations_s) or (None, None)
    if first_loss is not None and not math.isfinite(first_loss):
        first_loss = None
    data_wait_share = None
    if knows_data_wait:
        data_wait_share = sum(sample.data_wait_s for sample in measured) / timed.window_s
    return Measurement(
        throughput=throughput,
        throughput_low=low,
        throughput_high=high,
        median_step_s=statistics.median(durations_s),
        jitter_s=median_deviation(durations_s),
        p90_step_s=float(np.percentile(durations_s, 90)),
        num_steps=num_steps,
        window_s=timed.window_s,
        num_warm_up_steps=sum(sample.num_steps for sample in timed.samples) - num_steps,
        steady=timed.steady,
        data_wait_share=data_wait_share,
        cpu_s=timed.cpu_s,
        first_loss=first_loss,
        last_loss=_last_loss(timed),
        **known,
    )


def with_mfu(
    measurement: Measurement, *, num_gpus: int, flops_per_item: float, peak_flops_per_s: float
) -> Measurement:
    """Add model FLOPs utilization; FLOPs are forward and backward, the peak is one device's."""
    used = measurement.throughput / num_gpus * flops_per_item
    return replace(
        measurement, mfu=used / peak_flops_per_s, peak_flops_per_s=float(peak_flops_per_s)
    )


def exceeds_peak(measurement: Measurement) -> bool:
    """Say whether it computes more than was found possible: its peak or its FLOPs are wrong."""
    return measurement.mfu is not None and measurement.mfu > 1


def drift(durations: Sequence[float]) -> float:
    """Return the median of the second half over that of the first, less 1.

    0 when noise explains the difference, or with fewer than 8 steps.
    """
    if len(durations) < 8:
        return 0.0
    middle = len(durations) // 2
    halves = durations[:middle], durations[middle:]
    first, second = map(statistics.median, halves)
    # The standard error of a median is 1.2533 times that of a mean, for normal noise.
    error = 1.2533 * sum(median_deviation(half) ** 2 / len(half) for half in halves) ** 0.5
    if abs(second - first) <= NUM_MEDIANS_APART * error:
        return 0.0
    return second / first - 1


def _last_loss(timed: Timed) -> float | None:
    """Return the median of the last few losses; None when one of them is not finite."""
    losses = []
    for sample in timed.samples[-LAST_LOSSES:]:
        if sample.loss is None:
            return None
        losses.append(sample.loss)
    return statistics.median(losses)


MIN_CALLS = FEWEST_STEPS  # fewer durations say too little about their spread
_SAME = 1 + 1e-9  # the ratio of times that differ by rounding alone
MAX_INTERVAL = 0.10  # half width of the 95 % interval over the throughput
MAX_DRIFT = 0.05
MAX_CLOCK_GAP = 0.10  # between a trial's GPUs, each as a share of the highest clock that it can
MAX_SKIPPED_SHARE = 0.5
# The power limit is none: many cards work at it, and below their highest clock, all the time.
THROTTLING = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
)


def judge(
    spec: TrialSpec,
    measurement: Measurement,
    durations_s: Sequence[float],
    telemetry: Sequence[GpuTelemetry],
    num_gpus_here: int,
    num_cores: int,
    shares_host: bool = False,
    problem: str | None = None,
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict and every reason to doubt the measurement.

    `problem` makes the trial invalid. `durations_s` are those of the measured calls.
    `num_gpus_here` counts the trial's GPUs that the measuring process was to watch.
    """
    if problem:
        return Verdict.INVALID, (problem,)
    reasons: list[str] = []
    if not measurement.reported:  # else no step was timed, and who made it says why
        reasons += _doubts_about_steps(spec, measurement, durations_s)
    reasons += [
        *_doubts_about_cores(spec, measurement, num_cores),
        *_doubts_about_gpus(num_gpus_here, telemetry),
        *_doubts_about_utilization(measurement),
    ]
    if shares_host:
        reasons.append("other trials of the sweep may have run beside it")
    faults = {name: value for name, value in spec.injected_values.items() if name not in NOISE}
    if faults:
        reasons.append(f"{INJECTED_REASON}{injected_text(faults)}")
    return Verdict.SUSPECT if reasons else Verdict.VALID, tuple(reasons)


def _doubts_about_steps(
    spec: TrialSpec, measurement: Measurement, durations_s: Sequence[float]
) -> Iterator[str]:
    if not measurement.steady:
        remedy = f"set min_warm_up_steps to more than {spec.min_warm_up_steps}"
        if spec.engine == Engine.command:
            remedy = "let the program run for longer"
        num_warm_up = measurement.num_warm_up_steps
        yield f"step times had not settled in {num_warm_up} warm-up steps; {remedy}"
    num_calls = len(durations_s)
    if num_calls < MIN_CALLS:
        steps_per_call = measurement.num_steps // max(1, num_calls)
        if spec.engine != Engine.command:
            steps_per_call = spec.steps_per_execution
        calls = counted(num_calls, "step")
        if steps_per_call > 1:
            calls = f"{counted(num_calls, 'call')} of {steps_per_call} steps"
        if measurement.num_steps > num_calls * steps_per_call:
            calls += " after the first"
        fewest = (MIN_CALLS + 1) * steps_per_call
        yield f"only {calls}, too few to know their spread; {_more_steps(spec, fewest)}"
    change = drift(durations_s)
    if abs(change) > MAX_DRIFT:
        became, remedy = "slower", "look for heat, or for others that began to take the machine"
        if change < 0:
            became, remedy = "faster", "leave out more warm-up with min_warm_up_steps"
        yield f"steps became {abs(change):.0%} {became} within the window; {remedy}"
    low, high = measurement.throughput_low, measurement.throughput_high
    if low is not None and high is not None:
        width = (high - low) / 2 / measurement.throughput
        if width > MAX_INTERVAL:
            yield f"the interval is +/- {width:.0%}; {_more_steps(spec)}"
    elif num_calls >= MIN_CALLS and not never_change(durations_s):
        yield f"step times vary too much to know an interval; {_more_steps(spec)}"
    num_steps = measurement.num_steps + measurement.num_warm_up_steps
    if measurement.num_skipped_steps > MAX_SKIPPED_SHARE * num_steps:
        yield (
            f"{measurement.num_skipped_steps} steps, warm-up included, overflowed and were "
            "skipped; choose a smaller loss_scale"
        )


def never_change(durations_s: Sequence[float]) -> bool:
    """Return whether several times are the same, but for rounding."""
    return len(durations_s) > 1 and max(durations_s) <= _SAME * min(durations_s)


def _more_steps(spec: TrialSpec, fewest: int = 0) -> str:
    """Return what to do; `fewest` is how many steps would be enough, where it is known."""
    if spec.engine == Engine.command and spec.lacks(AXES["num_steps"]):
        return "let the program run for more steps"
    if fewest > spec.num_steps:
        return f"set num_steps to {fewest} or more"
    return f"set num_steps to more than {spec.num_steps}"


def _doubts_about_cores(spec: TrialSpec, measurement: Measurement, num_cores: int) -> Iterator[str]:
    """Doubt less on GPUs, where a neighbor on other cores hardly matters; on CPU devices every core
    counts."""
    if spec.device_kind != DeviceKind.CPU_DEVICE:
        return
    taken = measurement.cores_taken_by_others
    if taken is not None and taken > MAX_FOREIGN_SHARE * num_cores:
        yield f"others took {taken:.1f} of {num_cores} cores; stop those programs, or measure again"


def _doubts_about_gpus(num_gpus_here: int, telemetry: Sequence[GpuTelemetry]) -> Iterator[str]:
    num_unwatched = num_gpus_here - len(telemetry)
    if num_unwatched > 0:
        gpus = counted(num_unwatched, "GPU")
        yield f"clocks and neighbors of {gpus} were not watched; its log says why"
    for gpu in telemetry:
        throttled = [reason for reason in gpu.throttle_reasons if reason in THROTTLING]
        if throttled:
            yield f"{gpu.uuid} was throttled: {', '.join(throttled)}"
        yield from said_of_errors(gpu)
        if gpu.num_foreign_processes:
            yield said_of_others(gpu)
    yield from _doubts_about_clocks(telemetry)


def _doubts_about_clocks(telemetry: Sequence[GpuTelemetry]) -> Iterator[str]:
    shares = {}
    for gpu in telemetry:
        if gpu.sm_clock_mhz and gpu.max_sm_clock_mhz:
            shares[gpu.sm_clock_mhz / gpu.max_sm_clock_mhz] = gpu
    if shares and max(shares) - min(shares) > MAX_CLOCK_GAP:
        slow, fast = shares[min(shares)], shares[max(shares)]
        yield (
            f"{slow.uuid} ran at {slow.sm_clock_mhz:.0f} MHz, {fast.uuid} at "
            f"{fast.sm_clock_mhz:.0f}; all wait for the slowest: compare their power limits and "
            "cooling"
        )


def _doubts_about_utilization(measurement: Measurement) -> Iterator[str]:
    if measurement.mfu is not None and measurement.mfu > 1:
        yield (
            f"it trained at {measurement.mfu:.0%} of the measured peak, which cannot be: the peak "
            "was disturbed, or fast convolutions compute less than is counted; measure again on a "
            "quiet machine"
        )

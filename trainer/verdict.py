"""May a measurement be quoted? Every reason why not, in words. Stored beside the numbers, never
applied to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import GpuTelemetry, Measurement
from scalemark.records.outcomes import Verdict
from scalemark.records.planted import NOISE, PLANTED_REASON, planted_text
from scalemark.records.trial import TrialSpec
from scalemark.stats.within_process import FEWEST_STEPS
from trainer import statistics

MIN_CALLS = FEWEST_STEPS  # fewer durations tell too little of their spread, and have no interval
MAX_INTERVAL = 0.10  # half width of the 95 % interval over the throughput
MAX_DRIFT = 0.05
MAX_FOREIGN_SHARE = 0.10  # of the cores this process may use
MAX_CLOCK_LOSS = 0.10  # below the highest clock the GPU can
MAX_SKIPPED_SHARE = 0.5
THROTTLING = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sw_power_cap",
)


def judge(
    spec: TrialSpec,
    measurement: Measurement,
    durations_s: Sequence[float],
    telemetry: Sequence[GpuTelemetry],
    num_gpus_here: int,
    num_cores: int,
    shares_host: bool,
    problem: str | None,
) -> tuple[Verdict, tuple[str, ...]]:
    """`problem`: what makes the trial invalid, if anything. `durations_s`: of the measured calls.
    `num_gpus_here`: of the trial's those in the machine of the process that measures, which it was
    to watch.
    """
    if problem:
        return Verdict.INVALID, (problem,)
    faults = {name: value for name, value in spec.planted_values.items() if name not in NOISE}
    reasons = (
        *_of_steps(spec, measurement, durations_s),
        *_of_cores(spec, measurement, num_cores),
        *_of_gpus(num_gpus_here, telemetry),
        *(["other trials of the sweep may have run beside it"] if shares_host else []),
        *([f"{PLANTED_REASON}{planted_text(faults)}"] if faults else []),
    )
    return Verdict.SUSPECT if reasons else Verdict.VALID, reasons


def _of_steps(
    spec: TrialSpec, measurement: Measurement, durations_s: Sequence[float]
) -> Iterator[str]:
    if not measurement.steady:
        warm_up = f"in {measurement.num_warm_up_steps} warm-up steps"
        yield (
            f"step times had not settled {warm_up}; raise "
            f"min_warm_up_steps={spec.min_warm_up_steps}"
        )
    if len(durations_s) < MIN_CALLS:
        calls = f"{len(durations_s)} calls of {spec.steps_per_execution} steps"
        yield f"{calls} are too few to know their spread; raise num_steps={spec.num_steps}"
    drift = statistics.drift(durations_s)
    if abs(drift) > MAX_DRIFT:
        became = f"steps became {abs(drift):.0%} {'slower' if drift > 0 else 'faster'}"
        yield f"{became} within the window; look for heat or neighbors"
    low, high = measurement.throughput_low, measurement.throughput_high
    if low is not None and high is not None:
        width = (high - low) / 2 / measurement.throughput
        if width > MAX_INTERVAL:
            yield f"the interval is +/- {width:.0%}; raise num_steps={spec.num_steps}"
    elif len(durations_s) >= MIN_CALLS:
        yield f"step times vary too much to know an interval; raise num_steps={spec.num_steps}"
    if measurement.num_skipped_steps > MAX_SKIPPED_SHARE * (
        measurement.num_steps + measurement.num_warm_up_steps
    ):
        yield (
            f"{measurement.num_skipped_steps} steps, warm-up included, overflowed and were "
            "skipped; choose a smaller loss_scale"
        )


def _of_cores(spec: TrialSpec, measurement: Measurement, num_cores: int) -> Iterator[str]:
    """On GPUs a neighbor on other cores hardly matters; on stand-ins every core counts."""
    taken = measurement.cores_taken_by_others
    if (
        spec.device_kind == DeviceKind.CPU_STAND_IN
        and taken is not None
        and taken > MAX_FOREIGN_SHARE * num_cores
    ):
        yield f"others took {taken:.1f} of {num_cores} cores; end them, or measure again"


def _of_gpus(num_gpus_here: int, telemetry: Sequence[GpuTelemetry]) -> Iterator[str]:
    if len(telemetry) < num_gpus_here:
        yield (
            f"clocks and neighbors of {num_gpus_here - len(telemetry)} GPUs were not watched; "
            "see log.txt"
        )
    for gpu in telemetry:
        if throttled := [reason for reason in gpu.throttle_reasons if reason in THROTTLING]:
            yield f"{gpu.uuid} was throttled: {', '.join(throttled)}"
        if (
            gpu.sm_clock_mhz
            and gpu.max_sm_clock_mhz
            and gpu.sm_clock_mhz < (1 - MAX_CLOCK_LOSS) * gpu.max_sm_clock_mhz
        ):
            yield f"{gpu.uuid} ran at {gpu.sm_clock_mhz:.0f} of {gpu.max_sm_clock_mhz:.0f} MHz"
        if gpu.num_foreign_processes:
            yield f"{gpu.num_foreign_processes} other processes computed on {gpu.uuid}"

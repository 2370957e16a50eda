"""Makes the measurement of what a program told: warm-up, window, and what was taken meanwhile."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from command.curve import Calls, CurveError
from command.heard import Heard
from command.moments import Moments, Taken
from scalemark.readers.reading import Reading
from scalemark.records.measurement import Measurement, StepSample, is_item
from scalemark.records.outcomes import Phase
from scalemark.records.trial import LARGEST_FLOAT32, TrialSpec
from trainer import measured, timing

STEPS = "steps"
STEADY_SPAN = 2 * timing.STEADY_CALLS
LOST_SHARE = 0.25  # of the time with numbers: silence for longer after them is told of
LOST_LINES = 10  # that came in that silence
REPORTED = "as reported by the program: one number of its whole run, whose warm-up is not known"


class NothingReadError(Exception):
    """Raised where no number was found, or none that a speed follows from; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The numbers of one attempt."""

    samples: Sequence[StepSample]
    durations_s: Sequence[float]  # of the measured calls that count, per step
    measurement: Measurement
    doubts: Sequence[str]  # that only the reading of a program has
    window_s: tuple[float, float]  # on the monotonic clock


def measured_by(
    spec: TrialSpec,
    heard: Heard,
    moments: Moments,
    items_per_step: float | None,
    started_s: float,
    ended_s: float,
) -> Measured:
    """Measure by steps where the program told of them, else take its own number.

    Raises NothingReadError.
    """
    items_per_step = items_per_step or heard.curve.items_per_step
    total = _rate(heard.total, items_per_step)
    mean = _rate(heard.mean, items_per_step)
    rate = total or mean or heard.curve.mean_rate
    if not heard.curve.num_readings:
        if rate is None:
            raise NothingReadError(_instead(heard) or "found no number")
        return _reported(spec, heard, moments, rate, started_s, ended_s, REPORTED)
    try:
        calls = heard.curve.calls(items_per_step)
    except CurveError as error:
        if rate is None:
            why = _instead(heard) or f"found steps and no speed: {error}"
            raise NothingReadError(why) from error
        why = f"{REPORTED}; {error}"
        if total is None and mean is None and heard.curve.num_readings > 1:
            why = _untimed(heard.curve.num_readings, error)
        return _reported(spec, heard, moments, rate, started_s, ended_s, why)
    if calls.items_per_step is None and mean is not None:
        steps_per_s = calls.steps_per_call * len(calls.durations_s) / math.fsum(calls.durations_s)
        calls = replace(calls, items_per_step=mean / steps_per_s)
    if calls.items_per_step is None:
        if total is not None:  # items are worth more than steps
            return _reported(spec, heard, moments, total, started_s, ended_s, REPORTED)
        if why := _instead(heard):
            raise NothingReadError(why)
    return _timed(spec, heard, moments, calls, started_s, ended_s)


def _timed(
    spec: TrialSpec,
    heard: Heard,
    moments: Moments,
    calls: Calls,
    started_s: float,
    ended_s: float,
) -> Measured:
    num_warm_up, steady = warm_up(calls.durations_s, calls.steps_per_call, spec.min_warm_up_steps)
    samples = [
        StepSample(
            step=index * calls.steps_per_call,
            phase=Phase.WARM_UP if index < num_warm_up else Phase.MEASURE,
            start_s=calls.starts_s[index],
            duration_s=duration_s,
            data_wait_s=0.0,
            loss=_storable(calls.losses[index]),
            num_steps=calls.steps_per_call,
        )
        for index, duration_s in enumerate(calls.durations_s)
    ]
    start_s, end_s = calls.arrivals_s[num_warm_up], calls.arrivals_s[-1]
    window_s = math.fsum(calls.durations_s[num_warm_up:])
    taken = moments.taken(start_s, end_s)
    timed = timing.Timed(
        samples=samples,
        steady=steady,
        window_start_s=start_s,
        window_s=window_s,
        cpu_s=None if taken is None else taken.cpu_s,
    )
    first_s = heard.first_arrival_s
    measurement = measured.measurement(
        timed,
        items_per_step=1.0 if calls.items_per_step is None else calls.items_per_step,
        time_to_first_step_s=None if first_s is None else first_s - started_s,
        trace_s=None,
        first_step_s=None,
        first_loss=_storable(heard.first_loss),
        cores_taken_by_others=_others(spec, taken),
        peak_host_memory_bytes=moments.peak_bytes or None,
        peak_device_memory_bytes=None,
        num_skipped_steps=0,
        last_loss_scale=None,
        num_parameters=None,
        knows_data_wait=False,
        item=_item(spec, heard, is_known=calls.items_per_step is not None),
    )
    doubts = [*_doubts(heard, started_s, ended_s), *_uncounted(spec, calls)]
    return Measured(
        samples=samples,
        durations_s=timed.step_durations_s(),
        measurement=measurement,
        doubts=doubts,
        window_s=(start_s, end_s),
    )


def warm_up(durations_s: Sequence[float], steps_per_call: int, min_steps: int) -> tuple[int, bool]:
    """Return the number of calls before the first steady ones, and whether there are such.

    The trainer knows only the past, and takes the calls by which it sees the steady state for
    warm-up; here all are known, and these calls are measured, unless they begin with slow ones.
    One call is always left.
    """
    least = -(-min_steps // steps_per_call)
    most = max(timing.MAX_WARM_UP_FACTOR * least, timing.MAX_WARM_UP_CALLS)
    first_steady: int | None = None
    for begin in range(least, min(most, len(durations_s) - STEADY_SPAN) + 1):
        span = durations_s[begin : begin + STEADY_SPAN]
        if not timing.is_steady(span):
            continue
        early, late = span[: timing.STEADY_CALLS], span[timing.STEADY_CALLS :]
        usual_s = (1 + timing.STEADY_TOLERANCE) * statistics.median(late)
        if max(early) <= max(usual_s, *late):
            return begin, True
        first_steady = begin if first_steady is None else first_steady
    if first_steady is not None:
        return first_steady, True
    return min(least, len(durations_s) - 1), False


def _doubts(heard: Heard, started_s: float, ended_s: float) -> Sequence[str]:
    """Doubt rates that are none, and a program that talks on and tells no numbers any more."""
    first_s, last_s = heard.first_arrival_s, heard.curve.last_arrival_s
    if first_s is None:
        return []
    doubts = []
    if len(heard.unusable) > 1:  # the first one often has no time to be of
        doubts.append(
            f"{len(heard.unusable)} rates were no numbers, as {heard.unusable[0]}; "
            "they are left out"
        )
    silent_s = ended_s - last_s
    if heard.num_lines_since >= LOST_LINES and silent_s >= LOST_SHARE * (last_s - first_s):
        doubts.append(
            f"no number was read in the last {silent_s:.0f} of {ended_s - started_s:.0f} s, in "
            f"which the program printed {heard.num_lines_since} lines; has its output changed?"
        )
    return doubts


def _uncounted(spec: TrialSpec, calls: Calls) -> Sequence[str]:
    """Doubt steps that stand in place of the items that were asked for."""
    if calls.items_per_step is not None or spec.item in ("", STEPS):
        return []
    return [
        f"steps are counted, as nothing tells how many {spec.item} a step has; give "
        "command.items_per_step"
    ]


def _rate(reading: Reading | None, items_per_step: float | None) -> float | None:
    """Return the items per second that a reading tells of; None without them."""
    if reading is None or reading.throughput is not None:
        return reading.throughput if reading else None
    if reading.step_s and items_per_step:
        return items_per_step / reading.step_s
    return None


def _instead(heard: Heard) -> str:
    """Say what stood where a rate was expected; empty where rates stood there."""
    if not heard.unusable:
        return ""
    return f"found {heard.unusable[0]} where a rate was expected; wanted a number above 0"


def _untimed(num_rates: int, error: CurveError) -> str:
    return (
        f"as reported by the program: the mean of the {num_rates} rates that it printed, warm-up "
        f"included; {error}"
    )


def _reported(
    spec: TrialSpec,
    heard: Heard,
    moments: Moments,
    throughput: float,
    started_s: float,
    ended_s: float,
    why: str,
) -> Measured:
    """Keep the program's own number of its whole run; no time of a step is known, and `why` says
    what is known instead.
    """
    taken = moments.taken(started_s, ended_s)
    measurement = Measurement(
        throughput=throughput,
        throughput_low=None,
        throughput_high=None,
        median_step_s=None,
        jitter_s=None,
        p90_step_s=None,
        num_steps=0,
        window_s=ended_s - started_s,
        num_warm_up_steps=0,
        steady=False,
        time_to_first_step_s=None,
        trace_s=None,
        first_step_s=None,
        data_wait_share=None,
        cpu_s=None if taken is None else taken.cpu_s,
        cores_taken_by_others=_others(spec, taken),
        peak_host_memory_bytes=moments.peak_bytes or None,
        peak_device_memory_bytes=None,
        first_loss=_storable(heard.first_loss),
        last_loss=None,
        num_skipped_steps=0,
        last_loss_scale=None,
        num_parameters=None,
        item=_item(spec, heard, is_known=True),
        reported=True,
    )
    return Measured(
        samples=(),
        durations_s=(),
        measurement=measurement,
        doubts=(why,),
        window_s=(started_s, ended_s),
    )


def _item(spec: TrialSpec, heard: Heard, *, is_known: bool) -> str:
    """Return what is counted: steps, where nothing tells how many items a step has."""
    if not is_known:
        return STEPS
    if spec.item:
        return spec.item
    return heard.item if is_item(heard.item) else "items"


def _others(spec: TrialSpec, taken: Taken | None) -> float | None:
    """Return None also for one of several hosts: others of the trial may be on its machine."""
    return None if taken is None or spec.hosts > 1 else taken.cores_taken_by_others


def _storable(loss: float | None) -> float | None:
    return loss if loss is not None and abs(loss) <= LARGEST_FLOAT32 else None

"""Makes a measurement of the timed steps of one process, and of what else is known about it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scalemark.records.measurement import IMAGES, Measurement
from scalemark.stats.median_deviation import median_deviation
from scalemark.stats.within_process import interval_within
from trainer.timing import Timed

NUM_MEDIANS_APART = 3.0  # standard errors between two medians that noise does not explain
LAST_LOSSES = 5


def measurement(
    timed: Timed,
    *,
    items_per_step: float,  # of all replicas
    time_to_first_step_s: float | None,
    trace_s: float | None,
    first_step_s: float | None,
    first_loss: float | None,
    cores_taken_by_others: float | None,
    peak_host_memory_bytes: int | None,
    peak_device_memory_bytes: int | None,
    num_skipped_steps: int,
    last_loss_scale: float | None,
    num_parameters: int | None,
    link_bytes_per_s: float | None = None,
    variable_bytes: int | None = None,
    optimizer_state_bytes: int | None = None,
    knows_data_wait: bool = True,
    item: str = IMAGES,
) -> Measurement:
    """Fill in a Measurement, whose fields are explained there; `first_loss` may be infinite."""
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
        time_to_first_step_s=time_to_first_step_s,
        trace_s=trace_s,
        first_step_s=first_step_s,
        data_wait_share=data_wait_share,
        cpu_s=timed.cpu_s,
        cores_taken_by_others=cores_taken_by_others,
        peak_host_memory_bytes=peak_host_memory_bytes,
        peak_device_memory_bytes=peak_device_memory_bytes,
        first_loss=first_loss,
        last_loss=_last_loss(timed),
        num_skipped_steps=num_skipped_steps,
        last_loss_scale=last_loss_scale,
        num_parameters=num_parameters,
        link_bytes_per_s=link_bytes_per_s,
        item=item,
        variable_bytes=variable_bytes,
        optimizer_state_bytes=optimizer_state_bytes,
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

"""Makes a measurement of the timed steps of one process, and of what else is known of it."""

from __future__ import annotations

import math
import statistics

from scalemark.records.measurement import Measurement
from scalemark.stats.within_process import interval_within
from trainer.statistics import jitter, p90
from trainer.timing import Timed


def measurement(
    timed: Timed,
    *,
    images_per_step: int,  # of all replicas
    time_to_first_step_s: float,
    trace_s: float,
    first_step_s: float,
    first_loss: float | None,
    cores_taken_by_others: float | None,
    peak_host_memory_bytes: int,
    peak_device_memory_bytes: int | None,
    num_skipped_steps: int,
    last_loss_scale: float | None,
    num_parameters: int,
    link_bytes_per_s: float | None = None,
) -> Measurement:
    """The rest as in `scalemark.records.measurement.Measurement`; a loss may be no finite number."""
    durations_s = timed.step_durations_s()
    measured = timed.measured()
    num_steps = sum(sample.num_steps for sample in measured)
    throughput = images_per_step * num_steps / timed.window_s
    low, high = interval_within(throughput, durations_s) or (None, None)
    last_losses = [sample.loss for sample in timed.samples[-5:] if sample.loss is not None]
    return Measurement(
        throughput=throughput,
        throughput_low=low,
        throughput_high=high,
        median_step_s=statistics.median(durations_s),
        jitter_s=jitter(durations_s),
        p90_step_s=p90(durations_s),
        num_steps=num_steps,
        window_s=timed.window_s,
        num_warm_up_steps=sum(sample.num_steps for sample in timed.samples) - num_steps,
        steady=timed.steady,
        time_to_first_step_s=time_to_first_step_s,
        trace_s=trace_s,
        first_step_s=first_step_s,
        data_wait_share=sum(sample.data_wait_s for sample in measured) / timed.window_s,
        cpu_s=timed.cpu_s,
        cores_taken_by_others=cores_taken_by_others,
        peak_host_memory_bytes=peak_host_memory_bytes,
        peak_device_memory_bytes=peak_device_memory_bytes,
        first_loss=first_loss if first_loss is not None and math.isfinite(first_loss) else None,
        last_loss=statistics.median(last_losses)
        if len(last_losses) == len(timed.samples[-5:])
        else None,
        num_skipped_steps=num_skipped_steps,
        last_loss_scale=last_loss_scale,
        num_parameters=num_parameters,
        link_bytes_per_s=link_bytes_per_s,
    )

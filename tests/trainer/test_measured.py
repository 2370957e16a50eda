"""A measurement has the interval that analysis would give its steps, and none of too few calls."""

import numpy as np
import pytest

from scalemark.records.measurement import Phase, StepSample
from scalemark.stats.within_process import interval_within, median_deviation
from trainer.measured import Timed, drift, measurement


def timed(durations_s):
    starts_s = np.cumsum([0.0, *durations_s])
    samples = [
        StepSample(
            step=step,
            phase=Phase.MEASURE,
            start_s=start_s,
            duration_s=duration_s,
            data_wait_s=0.0,
            loss=1.0,
        )
        for step, (start_s, duration_s) in enumerate(zip(starts_s, durations_s, strict=False))
    ]
    return Timed(
        samples=samples, steady=True, window_start_s=0.0, window_s=float(starts_s[-1]), cpu_s=1.0
    )


def measured(durations_s):
    return measurement(
        timed(durations_s),
        items_per_step=64,
        time_to_first_step_s=1.0,
        trace_s=0.1,
        first_step_s=0.5,
        first_loss=1.0,
        cores_taken_by_others=None,
        peak_host_memory_bytes=1,
        peak_device_memory_bytes=None,
        num_skipped_steps=0,
        last_loss_scale=None,
        num_parameters=1,
    )


def test_the_interval_that_is_stored_is_that_within_the_process():
    noise = np.random.default_rng(1).normal(size=60)
    durations_s = np.exp(0.05 * np.convolve(noise, [0.5, 0.3, 0.2], mode="same")).tolist()
    found = measured(durations_s)
    within = interval_within(found.throughput, durations_s)
    assert (found.throughput_low, found.throughput_high) == pytest.approx(within, rel=1e-3)


def test_of_too_few_calls_no_interval_is_stored():
    """The first one does not count: it begins with idle devices."""
    found = measured([0.1] * 8)
    assert (found.throughput_low, found.throughput_high) == (None, None)
    assert measured([0.1] * 9).throughput_low == pytest.approx(640.0)


def test_jitter_is_the_scaled_median_absolute_deviation():
    assert median_deviation([1.0, 1.0, 2.0, 4.0, 8.0]) == pytest.approx(1.4826 * 1.0)


def test_steps_that_become_slower_drift_and_noisy_ones_do_not():
    random = np.random.default_rng(4)
    noise = 0.01 * random.normal(size=40)
    assert drift(list(1.0 + noise)) == 0.0
    assert drift(list(np.linspace(1.0, 1.4, 40) + noise)) == pytest.approx(0.18, abs=0.03)


def test_few_steps_say_nothing_of_drift():
    assert drift([1, 1, 1, 9, 9, 9]) == 0.0

"""What clocks below the highest cost, and why they are."""

import pytest

from analysis.explain.waterfall import observed


def attempt(*clocks_mhz, reasons=()):
    """On GPUs that can 2000 MHz, at these."""
    names = ("data_wait_share", "cores_taken_by_others", "num_parameters", "verdict_reasons")
    row = dict.fromkeys((*names, "recorded_profile"))
    gpus = []
    for number, clock in enumerate(clocks_mhz):
        gpu = {"uuid": f"GPU-{number}", "sm_clock_mhz": clock, "max_sm_clock_mhz": 2000}
        gpus.append(gpu | {"throttle_reasons": reasons})
    return {**row, "num_cores": 2, "recorded_telemetry": gpus}


@pytest.mark.parametrize(
    ("attempts", "loss"),
    [
        ([attempt(2000.0, 1500.0, 1900.0)], 0.25),
        # the median of the attempts, as their throughput is
        ([attempt(1980.0, 1990.0), attempt(1000.0, 1990.0), attempt(1990.0, 1960.0)], 0.02),
        ([attempt(None, 1600.0), attempt(None), attempt()], 0.2),
        ([attempt(None)], None),
    ],
)
def test_the_clock_loss_is_that_of_the_slowest_gpu(attempts, loss):
    assert observed(attempts).clock_loss == (loss and pytest.approx(loss))


def test_reasons_of_all_attempts_are_brought_together():
    seen = observed([attempt(1400.0), attempt(1000.0, 1000.0, reasons=("sw_power_cap",))])
    assert seen.throttled == {"sw_power_cap": ("GPU-0", "GPU-1")}

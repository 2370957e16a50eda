"""What is reported of the attempts of a trial by what was seen beside their steps."""

import pytest

from analysis.explain.observed import observed


def attempt(*clocks_mhz):
    """On GPUs that can 2000 MHz, at these."""
    row = dict.fromkeys(
        (
            "data_wait_share",
            "cores_taken_by_others",
            "num_parameters",
            "verdict_reasons",
            "recorded_profile",
        )
    )
    gpus = [
        {
            "uuid": f"GPU-{number}",
            "sm_clock_mhz": clock,
            "max_sm_clock_mhz": 2000,
            "temperature_c": 60,
            "throttle_reasons": (),
        }
        for number, clock in enumerate(clocks_mhz)
    ]
    return {**row, "num_cores": 2, "link_bytes_per_s": None, "recorded_telemetry": gpus}


def test_the_clock_loss_is_that_of_the_slowest_gpu():
    assert observed([attempt(2000.0, 1500.0, 1900.0)]).clock_loss == pytest.approx(0.25)


def test_clocks_are_the_median_of_the_attempts_as_their_throughput_are():
    found = observed([attempt(1980.0, 1990.0), attempt(1000.0, 1990.0), attempt(1990.0, 1960.0)])
    assert found.clock_loss == pytest.approx(0.02)


def test_attempts_whose_clocks_nobody_saw_do_not_count():
    assert observed([attempt(None, 1600.0), attempt(None), attempt()]).clock_loss == pytest.approx(
        0.2
    )
    assert observed([attempt(None)]).clock_loss is None

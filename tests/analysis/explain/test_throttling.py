"""Each reason why a GPU was throttled has its own remedy."""

import pytest

from analysis.explain.observed import Observed, observed
from analysis.explain.remedies import against_throttling


def remedies(clock_loss=None, **throttled):
    seen = Observed(throttled=throttled, clock_loss=clock_loss)
    return [f"Try {remedy.change}: {remedy.why}." for remedy in against_throttling(seen)]


def test_every_reason_has_a_remedy(snapshot):
    reasons = (
        "hw_thermal_slowdown",
        "sw_thermal_slowdown",
        "hw_power_brake_slowdown",
        "hw_slowdown",
        "sw_power_cap",
        "applications_clocks",
    )
    assert {reason: remedies(**{reason: ("GPU-0",)}) for reason in reasons} == snapshot


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        ({}, []),
        ({"gpu_idle": ("A",)}, []),
        # with its cause known, a slowdown is said once
        ({"hw_slowdown": ("A",), "hw_thermal_slowdown": ("A",)}, ["to cool A"]),
        (
            {"hw_slowdown": ("A", "B"), "hw_thermal_slowdown": ("A",)},
            ["to cool A", "to check heat and power supply of B"],
        ),
        ({"sw_power_cap": ("A", "B")}, ["to raise the power limit of A and B"]),
        # as an H200 had it, which lost next to nothing
        ({"sw_power_cap": ("A",), "clock_loss": 1 - 1965 / 1980}, []),
        ({"sw_power_cap": ("A",), "clock_loss": 0.05}, ["to raise the power limit of A"]),
    ],
)
def test_gpus_are_named_once_for_the_gravest_reason(seen, wanted):
    assert [text[4:].partition(":")[0] for text in remedies(**seen)] == wanted


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

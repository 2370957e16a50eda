"""A clock below the highest and corrected memory errors are said, and are no doubt."""

import pytest

from store.commands.sections import gpu_notes

T4 = {
    "uuid": "GPU-a",
    "sm_clock_mhz": 1100.0,
    "max_sm_clock_mhz": 1590,
    "power_limit_w": 70.0,
    "throttle_reasons": ["sw_power_cap"],
}
SAID = "GPU-a ran at 1100 of 1590 MHz"


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({}, [f"{SAID}, at its power limit of 70 W"]),
        ({"power_limit_w": None}, [SAID]),
        ({"throttle_reasons": []}, [SAID]),
        ({"throttle_reasons": [], "sm_clock_mhz": 1500.0}, []),
        ({"sm_clock_mhz": None}, []),
    ],
)
def test_a_clock_below_the_highest_is_said_with_its_power_limit(changes, notes):
    assert list(gpu_notes([T4 | changes])) == notes


@pytest.mark.parametrize(
    ("num", "notes"), [(None, []), (0, []), (3, ["ECC corrected 3 memory errors of GPU-a"])]
)
def test_corrected_memory_errors_are_said(num, notes):
    assert list(gpu_notes([{"uuid": "GPU-a", "num_corrected_errors": num}])) == notes

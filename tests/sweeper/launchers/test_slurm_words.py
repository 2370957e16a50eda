"""What `scontrol` prints is read as Slurm means it."""

import math

import pytest

from sweeper.launchers.slurm import _minutes, _num_gpus, _records


@pytest.mark.parametrize(
    ("gres", "num"),
    [("gpu:8", 8), ("gpu:a100:8(S:0-1),nvme:1", 8), ("gpu", 1), ("(null)", 0), ("", 0)],
)
def test_gpus_are_counted_among_generic_resources(gres, num):
    assert _num_gpus(gres) == num


@pytest.mark.parametrize(
    ("text", "minutes"), [("01:00:00", 60), ("2-00:30:00", 2910), ("UNLIMITED", math.inf)]
)
def test_limits_of_time_are_minutes(text, minutes):
    assert _minutes(text) == minutes


def test_the_first_of_a_name_counts_for_free_text_comes_last():
    line = "NodeName=n1 State=IDLE Gres=gpu:2 Reason=State=DOWN of old"
    assert _records(f"{line}\nnothing\n", "NodeName") == [
        {"NodeName": "n1", "State": "IDLE", "Gres": "gpu:2", "Reason": "State=DOWN"}
    ]

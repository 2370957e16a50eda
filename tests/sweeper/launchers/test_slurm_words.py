"""What `sinfo` prints is read as Slurm means it."""

import math

import pytest

from sweeper.launchers.slurm import minutes, num_gpus


@pytest.mark.parametrize(
    ("gres", "num"),
    [("gpu:8", 8), ("gpu:a100:8(S:0-1),nvme:1", 8), ("gpu", 1), ("(null)", 0), ("", 0)],
)
def test_gpus_are_counted_among_generic_resources(gres, num):
    assert num_gpus(gres) == num


@pytest.mark.parametrize(
    ("text", "wanted"), [("1:00:00", 60), ("2-00:30:00", 2910), ("infinite", math.inf)]
)
def test_limits_of_time_are_minutes(text, wanted):
    assert minutes(text) == wanted

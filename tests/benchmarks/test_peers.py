"""Loops written by hand run where ours does."""

import pytest

from benchmarks.peers import device_names
from scalemark.records.machine import DeviceKind
from tests.specs import small


@pytest.mark.parametrize(
    ("kind", "names"),
    [(DeviceKind.GPU, ["GPU:0", "GPU:1"]), (DeviceKind.CPU_DEVICE, ["CPU:0", "CPU:1"])],
)
def test_peers_run_on_devices_of_the_trials_kind(kind, names):
    assert device_names(small(num_gpus=2, device_kind=kind)) == names

"""One process runs all in-process trainer tests: its logical CPU devices can be made only once."""

from dataclasses import replace

import pytest

from scalemark.records.machine import DeviceKind
from trainer import devices

MOST_REPLICAS = 4


@pytest.fixture(scope="session", autouse=True)
def all_devices() -> devices.Devices:
    """Made before any test of this process has TensorFlow make its devices."""
    return devices.claim(DeviceKind.CPU_DEVICE, MOST_REPLICAS)


@pytest.fixture
def make_devices(all_devices: devices.Devices):
    """make_devices(2): the host and the first two CPU devices."""

    def make(num_replicas: int) -> devices.Devices:
        return replace(all_devices, replicas=all_devices.replicas[:num_replicas])

    return make

"""One process runs all in-process trainer tests: its logical CPU devices can be made only once."""

from dataclasses import replace

import keras
import numpy as np
import pytest

from scalemark.records.machine import DeviceKind
from tests.specs import small
from trainer import devices
from trainer.mode_check import train, whole_batches

MOST_REPLICAS = 4


@pytest.fixture(scope="session", autouse=True)
def all_devices() -> devices.Devices:
    """Made before any test of this process has TensorFlow make its devices."""
    return devices.claim(DeviceKind.CPU_DEVICE, MOST_REPLICAS)


@pytest.fixture(autouse=True)
def plain_keras() -> None:
    """Each trial sets these for its process, and a test follows many."""
    keras.mixed_precision.set_global_policy("float32")
    keras.config.set_image_data_format("channels_last")


@pytest.fixture
def make_devices(all_devices: devices.Devices):
    """make_devices(2): the host and the first two CPU devices."""

    def make(num_replicas: int) -> devices.Devices:
        return replace(all_devices, replicas=all_devices.replicas[:num_replicas])

    return make


@pytest.fixture(scope="module")
def alone(all_devices):
    """alone(num_replicas, num_steps, **changes): the weights of one device that takes the same whole batches."""
    one = replace(all_devices, replicas=all_devices.replicas[:1])
    known = {}

    def weights(num_replicas: int, num_steps: int, **changes) -> list[np.ndarray]:
        key = num_replicas, num_steps, str(changes)
        if key not in known:
            batches = list(whole_batches(num_replicas, num_steps))
            spec = small(**{"learning_rate": 0.1} | changes)
            known[key] = train(spec, one, batches)[0].update.weights(0)
        return known[key]

    return weights

"""Copies of a gradient are summed on one replica, round robin by tensor, and copied back to all."""

from collections.abc import Sequence

import tensorflow as tf

from trainer.all_reduces.pscpu import average_on
from trainer.devices import Devices

REDUCTION_OP = "AddN"


def average(gradients: Sequence[tf.Tensor], index: int, devices: Devices) -> list[tf.Tensor]:
    return average_on(devices.replicas[index % len(devices.replicas)], gradients, devices)


def reduction_devices(devices: Devices) -> tuple[str, ...]:
    return devices.replicas

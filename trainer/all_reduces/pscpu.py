"""Sums the copies of every gradient on the host and copies the sum back to all replicas."""

from collections.abc import Sequence

from scalemark.abilities import HOST, AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """Send all gradients to the host and back, per GPU; the host sums them all."""
    for gpu in range(num_gpus):
        traffic.copy(gpu, HOST, sum(sizes), len(sizes))
        traffic.copy(HOST, gpu, sum(sizes), len(sizes))
    traffic.host_sums(num_gpus * sum(sizes), (num_gpus + 1) * sum(sizes))


ABILITIES = AllReduceAbilities(sends=sends)

import tensorflow as tf

from trainer.devices import Devices, on_each


def create(devices: Devices) -> "SumOnOneDevice":
    return SumOnOneDevice(devices, (devices.host,))


class SumOnOneDevice:
    """Sums whole tensors on one device each, in turn, and copies them back."""

    reduction_ops = ("AddN",)

    def __init__(self, devices: Devices, reduction_devices: tuple[str, ...]) -> None:
        self._devices, self.reduction_devices = devices, reduction_devices

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        with (
            tf.device(self.reduction_devices[index % len(self.reduction_devices)]),
            tf.name_scope("reduce"),
        ):
            total = tf.add_n(copies)
        return copies_on(self._devices.replicas, total)


def copies_on(devices: Sequence[str], value: tf.Tensor) -> list[tf.Tensor]:
    """Copy a tensor to each device."""
    return on_each(devices, lambda: tf.identity(value))

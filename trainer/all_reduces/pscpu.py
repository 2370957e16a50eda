"""Copies of every gradient are summed on the host and copied back to all replicas."""

from __future__ import annotations

from collections.abc import Sequence

from scalemark.abilities.all_reduce import HOST, AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """All gradients go to the host and come back, per GPU; the host sums them all."""
    for gpu in range(num_gpus):
        traffic.copy(gpu, HOST, sum(sizes), len(sizes))
        traffic.copy(HOST, gpu, sum(sizes), len(sizes))
    traffic.host_sums(num_gpus * sum(sizes), (num_gpus + 1) * sum(sizes))


ABILITIES = AllReduceAbilities(sends=sends)

import tensorflow as tf

from trainer.devices import Devices


def create(devices: Devices) -> SumOnOneDevice:
    return SumOnOneDevice(devices, (devices.host,))


class SumOnOneDevice:
    """Whole tensors are summed on one device each, which take turns, and copied back."""

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
    """One copy of a tensor per device."""
    copies = []
    for device in devices:
        with tf.device(device):
            copies.append(tf.identity(value))
    return copies

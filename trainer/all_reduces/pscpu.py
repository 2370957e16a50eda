"""Copies of every gradient are summed on the host and copied back to all replicas."""

from collections.abc import Sequence

import tensorflow as tf

from trainer.devices import Devices

REDUCTION_OP = "AddN"


def average(gradients: Sequence[tf.Tensor], index: int, devices: Devices) -> list[tf.Tensor]:
    return average_on(devices.host, gradients, devices)


def reduction_devices(devices: Devices) -> tuple[str, ...]:
    return (devices.host,)


def average_on(device: str, gradients: Sequence[tf.Tensor], devices: Devices) -> list[tf.Tensor]:
    """Sum on one device, divide there, copy the average to every replica."""
    with tf.device(device), tf.name_scope("reduce"):
        result = tf.add_n(gradients) / len(gradients)
    return copies_on_replicas(result, devices)


def copies_on_replicas(value: tf.Tensor, devices: Devices) -> list[tf.Tensor]:
    copies = []
    for device in devices.replicas:
        with tf.device(device):
            copies.append(tf.identity(value))
    return copies

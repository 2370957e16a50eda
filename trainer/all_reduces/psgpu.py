"""Cuts gradients into a shard per replica; replica i sums shard i, then all gather all shards.

This is tf_cnn_benchmarks' shuffle with the GPUs as gather devices: no device sums a whole tensor.
"""

from collections.abc import Sequence

from scalemark.abilities import AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """Cut every gradient in n shards: (n-1)/n of the bytes out and in, twice."""
    for owner in range(num_gpus):
        for gpu in range(num_gpus):
            traffic.copy(gpu, owner, sum(sizes) / num_gpus, len(sizes))
            traffic.copy(owner, gpu, sum(sizes) / num_gpus, len(sizes))


ABILITIES = AllReduceAbilities(sends=sends)

import tensorflow as tf

from trainer.devices import Devices, on_each


def create(devices: Devices) -> "Shuffle":
    return Shuffle(devices)


class Shuffle:
    reduction_ops = ("AddN",)

    def __init__(self, devices: Devices) -> None:
        self.reduction_devices = devices.replicas

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        devices = self.reduction_devices
        shape = copies[0].shape
        num = len(devices)
        sizes = [len(range(shard, shape.num_elements(), num)) for shard in range(num)]
        pieces = on_each(devices, lambda copy: tf.split(tf.reshape(copy, [-1]), sizes), copies)
        with tf.name_scope("reduce"):
            summed = on_each(devices, tf.add_n, zip(*pieces, strict=True))
        return on_each(devices, lambda: tf.reshape(tf.concat(summed, 0), shape))

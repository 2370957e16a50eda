"""Every gradient is cut into one shard per replica; replica i sums shard i, then all gather all shards.

The shuffle all-reduce of tf_cnn_benchmarks with the GPUs as gather devices: no device sums a whole large tensor.
"""

from collections.abc import Sequence

import tensorflow as tf

from trainer.devices import Devices

REDUCTION_OP = "AddN"


def average(gradients: Sequence[tf.Tensor], index: int, devices: Devices) -> list[tf.Tensor]:
    num_shards = len(devices.replicas)
    shape = gradients[0].shape
    sizes = [len(range(shard, shape.num_elements(), num_shards)) for shard in range(num_shards)]
    pieces = []
    for device, gradient in zip(devices.replicas, gradients, strict=True):
        with tf.device(device):
            pieces.append(tf.split(tf.reshape(gradient, [-1]), sizes))
    summed = []
    for device, shards in zip(devices.replicas, zip(*pieces, strict=True), strict=True):
        with tf.device(device), tf.name_scope("reduce"):
            summed.append(tf.add_n(shards) / num_shards)
    gathered = []
    for device in devices.replicas:
        with tf.device(device):
            gathered.append(tf.reshape(tf.concat(summed, 0), shape))
    return gathered


def reduction_devices(devices: Devices) -> tuple[str, ...]:
    return devices.replicas

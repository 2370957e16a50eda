"""NVIDIA's collective library sums every gradient in place on all GPUs at once. Needs one physical GPU per replica."""

from collections.abc import Sequence

import tensorflow as tf

from store.records import DeviceKind
from trainer.devices import Devices
from trainer.errors import UnsupportedTrialError

REDUCTION_OP = "NcclAllReduce"


def average(gradients: Sequence[tf.Tensor], index: int, devices: Devices) -> list[tf.Tensor]:
    """Raises UnsupportedTrialError on anything but GPUs. The raw op is used because it fails where NCCL cannot run."""
    reduction_devices(devices)
    averages = []
    for device, gradient in zip(devices.replicas, gradients, strict=True):
        with tf.device(device), tf.name_scope("reduce"):
            total = tf.raw_ops.NcclAllReduce(
                input=gradient, reduction="sum", num_devices=len(gradients), shared_name=f"gradient_{index}"
            )
            averages.append(total / len(gradients))
    return averages


def reduction_devices(devices: Devices) -> tuple[str, ...]:
    if devices.kind is not DeviceKind.GPU:
        raise UnsupportedTrialError("all_reduce=nccl needs one physical GPU per replica; these replicas are CPU stand-ins")
    return devices.replicas

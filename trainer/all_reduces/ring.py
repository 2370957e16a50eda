"""TensorFlow's collective ring: no device sees more traffic than another."""

from collections.abc import Sequence

from scalemark.abilities import AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """Copy from neighbor to neighbor, 2 (n-1) rounds one after another for each message."""
    num_rounds = 2 * (num_gpus - 1)
    for gpu in range(num_gpus):
        neighbor = (gpu + 1) % num_gpus
        traffic.copy(gpu, neighbor, num_rounds / num_gpus * sum(sizes), num_rounds * len(sizes))


ABILITIES = AllReduceAbilities(sends=sends, within_hosts=False)

import tensorflow as tf

from trainer.collectives import CollectiveGroup
from trainer.devices import Devices


def create(devices: Devices) -> "Ring":
    return Ring(devices)


class Ring:
    reduction_ops = ("CollectiveReduceV2",)

    def __init__(self, devices: Devices, hint: str = "ring") -> None:
        self.reduction_devices = devices.replicas
        self._group = CollectiveGroup(devices.replicas, hint)

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        with tf.name_scope("reduce"):
            return self._group.reduce(copies, index)

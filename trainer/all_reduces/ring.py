"""TensorFlow's collective ring: no device sees more traffic than another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from scalemark.abilities.all_reduce import AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """Copy from neighbor to neighbor, 2 (n-1) rounds one after another for each message."""
    num_rounds = 2 * (num_gpus - 1)
    for gpu in range(num_gpus):
        neighbor = (gpu + 1) % num_gpus
        traffic.copy(gpu, neighbor, num_rounds / num_gpus * sum(sizes), num_rounds * len(sizes))


ABILITIES = AllReduceAbilities(sends=sends, within_hosts=False)

import tensorflow as tf

from trainer.devices import Devices

_groups = count(1)  # group keys must differ within the process


def create(devices: Devices) -> Ring:
    return Ring(devices)


class Ring:
    reduction_ops = ("CollectiveReduceV2",)

    def __init__(self, devices: Devices) -> None:
        self.reduction_devices = devices.replicas
        self._group = next(_groups)
        # one per device: its collectives run in the order of the graph; without, they deadlock
        self._tokens = []
        for device in devices.replicas:
            with tf.device(device):
                self._tokens.append(tf.Variable(0.0))

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        sums = []
        for device, token, copy in zip(self.reduction_devices, self._tokens, copies, strict=True):
            with tf.device(device), tf.name_scope("reduce"):
                sums.append(
                    tf.raw_ops.CollectiveReduceV2(
                        input=copy,
                        group_size=len(copies),
                        group_key=self._group,
                        instance_key=index,
                        ordering_token=[token.handle],
                        merge_op="Add",
                        final_op="Id",
                        communication_hint="ring",
                    )
                )
        return sums

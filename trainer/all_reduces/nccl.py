"""Sums every gradient on all GPUs at once by NCCL, which needs one physical GPU per replica."""

from collections.abc import Sequence
from functools import partial
from itertools import count

from scalemark.abilities import AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """Launch a kernel per GPU and message from one process: 2 (n-1)/n of the bytes per GPU."""
    traffic.collective(sizes, num_gpus, launchers=num_gpus)


ABILITIES = AllReduceAbilities(
    sends=sends, uses_nccl=True, gpu_only="NCCL needs one physical GPU per replica"
)

import tensorflow as tf

from trainer.devices import Devices, on_each

_builds = count()  # names are shared by all graphs of the process


def create(devices: Devices) -> "Nccl":
    """Raises UnsupportedTrialError unless every replica has its own physical GPU."""
    devices.check_own_gpus()
    return Nccl(devices)


class Nccl:
    """Calls the raw op, which fails without NCCL; a collective with its hint runs silently."""

    reduction_ops = ("NcclAllReduce",)

    def __init__(self, devices: Devices) -> None:
        self.reduction_devices = devices.replicas
        self._name = f"scalemark_{next(_builds)}"

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        all_reduce = partial(
            tf.raw_ops.NcclAllReduce,
            reduction="sum",
            num_devices=len(copies),
            shared_name=f"{self._name}_{index}",
        )
        with tf.name_scope("reduce"):
            return on_each(self.reduction_devices, lambda copy: all_reduce(input=copy), copies)

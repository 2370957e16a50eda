"""Every replica trains alone: own variables, own gradients, nothing is shared. The ceiling without communication."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from trainer.devices import Devices
from trainer.towers import AllReduce, Optimizer
from trainer.variable_updates.replicated import Replicated


def create(
    initial: Sequence[np.ndarray], devices: Devices, all_reduce: AllReduce, optimizer: Optimizer, local_parameter_device: str
) -> Replicated:
    """As `replicated`, with no reduction at all; `all_reduce` is not used."""
    return Replicated(initial, devices, _Alone(), optimizer)


class _Alone:
    REDUCTION_OP = ""

    def average(self, gradients: Sequence[tf.Tensor], index: int, devices: Devices) -> list[tf.Tensor]:
        return list(gradients)

    def reduction_devices(self, devices: Devices) -> tuple[str, ...]:
        return ()

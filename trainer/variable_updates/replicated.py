"""Every replica owns a copy of all variables; gradients are all-reduced, and each replica applies the same average.

```
  GPU 0: weights ─► gradients ─┐            ┌─► update weights
  GPU 1: weights ─► gradients ─┴ all-reduce ┴─► update weights
```
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from trainer.devices import Devices
from trainer.towers import AllReduce, Optimizer, Placed


def create(
    initial: Sequence[np.ndarray], devices: Devices, all_reduce: AllReduce, optimizer: Optimizer, local_parameter_device: str
) -> Replicated:
    return Replicated(initial, devices, all_reduce, optimizer)


class Replicated:
    def __init__(self, initial: Sequence[np.ndarray], devices: Devices, all_reduce: AllReduce, optimizer: Optimizer) -> None:
        self._copies = [[Placed.create(value, device, optimizer) for value in initial] for device in devices.replicas]
        self._devices, self._all_reduce, self._optimizer = devices, all_reduce, optimizer
        self.update_devices = devices.replicas
        self.reduction_devices = all_reduce.reduction_devices(devices)
        self.reduction_op = all_reduce.REDUCTION_OP

    def read(self, replica: int) -> list[tf.Tensor]:
        with tf.device(self._devices.replicas[replica]):
            return [placed.variable.read_value() for placed in self._copies[replica]]

    def update(self, gradients: Sequence[Sequence[tf.Tensor]]) -> None:
        for index, copies in enumerate(zip(*gradients, strict=True)):
            averages = copies if len(copies) == 1 else self._all_reduce.average(copies, index, self._devices)
            for replica, average in enumerate(averages):
                self._copies[replica][index].apply(average, self._optimizer)

    def weights(self, replica: int) -> list[np.ndarray]:
        return [placed.variable.numpy() for placed in self._copies[replica]]

"""One copy of every variable, on the host or spread over the GPUs; replicas fetch weights and send gradients.

```
  owner of a variable: weights ──► GPU 0 ─► gradient ─┐
             ▲              └────► GPU 1 ─► gradient ─┴─► averaged and applied at the owner
```
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from trainer.devices import Devices
from trainer.towers import AllReduce, Optimizer, Placed


def create(
    initial: Sequence[np.ndarray],
    devices: Devices,
    all_reduce: AllReduce,
    optimizer: Optimizer,
    local_parameter_device: str,
) -> ParameterServer:
    owners = _OWNERS[local_parameter_device](initial, devices)
    return ParameterServer(initial, owners, devices, optimizer)


class ParameterServer:
    def __init__(self, initial: Sequence[np.ndarray], owners: Sequence[str], devices: Devices, optimizer: Optimizer) -> None:
        self._shared = [Placed.create(value, owner, optimizer) for value, owner in zip(initial, owners, strict=True)]
        self._devices, self._optimizer = devices, optimizer
        self.update_devices = tuple(dict.fromkeys(owners))
        self.reduction_devices = self.update_devices
        self.reduction_op = "AddN"

    def read(self, replica: int) -> list[tf.Tensor]:
        weights = []
        for placed in self._shared:
            with tf.device(placed.variable.device):
                value = placed.variable.read_value()
            with tf.device(self._devices.replicas[replica]):
                weights.append(tf.identity(value))
        return weights

    def update(self, gradients: Sequence[Sequence[tf.Tensor]]) -> None:
        for placed, copies in zip(self._shared, zip(*gradients, strict=True), strict=True):
            with tf.device(placed.variable.device), tf.name_scope("reduce"):
                average = copies[0] if len(copies) == 1 else tf.add_n(copies) / len(copies)
            placed.apply(average, self._optimizer)

    def weights(self, replica: int) -> list[np.ndarray]:
        return [placed.variable.numpy() for placed in self._shared]


def _all_on_host(initial: Sequence[np.ndarray], devices: Devices) -> list[str]:
    return [devices.host] * len(initial)


def _spread_over_replicas(initial: Sequence[np.ndarray], devices: Devices) -> list[str]:
    """Whole variables, in order, each to the replica that holds the fewest bytes so far (tf_cnn_benchmarks' greedy rule)."""
    load = dict.fromkeys(devices.replicas, 0)
    owners = []
    for value in initial:
        owner = min(load, key=load.__getitem__)
        load[owner] += value.nbytes
        owners.append(owner)
    return owners


_OWNERS = {"cpu": _all_on_host, "gpu": _spread_over_replicas}

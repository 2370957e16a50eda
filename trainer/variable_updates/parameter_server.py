"""One copy of every variable, on the host or spread over the GPUs, to which gradients are sent.

```
  owner of a variable: weights ──► GPU 0 ─► gradient ─┐
             ▲              └────► GPU 1 ─► gradient ─┴─► summed and applied at the owner
```
With staged_vars a replica computes on the weights fetched during the step before, so that fetching
hides behind computing: another algorithm than SGD, one step stale.
"""

from collections.abc import Sequence

from scalemark.abilities import Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("cpu", "gpu"),
    all_reduces=("none",),
    why="gradients meet at the variable's owner, so there is nothing to all-reduce",
    sends=Sends.TO_OWNERS,
    in_your_code={
        "cpu": "tf.distribute.experimental.CentralStorageStrategy(), which trains no Keras 3 model "
        "with batch normalization",
        "": "DataParallel of PyTorch, with all variables on one GPU; nothing in tf.distribute",
    },
    stages=True,
)

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer import towers
from trainer.devices import Devices
from trainer.model_tower import Batch, read_where_it_is


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: towers.Optimizer
) -> "ParameterServer":
    # "gpu": tf_cnn_benchmarks' greedy rule
    places = devices.replicas
    if spec.local_parameter_device == "cpu":
        places = (devices.host,)
    owners = towers.least_loaded(initial, places)
    return ParameterServer(initial, owners, devices, optimizer, staged=spec.staged_vars)


class ParameterServer(towers.SharedVariables):
    inlines_towers = False
    reduction_ops = ("AddN",)

    def run_towers(self, tower: towers.Tower, batches: Sequence[Batch]) -> list[towers.TowerResult]:
        shared = [read_where_it_is(placed.variable) for placed in self._shared]
        weights = []
        for replica in range(len(self._devices.replicas)):
            weights.append(self._fetched(replica, shared))
        return towers.run_explicit_towers(tower, batches, weights, self._devices)

    def reduce(
        self, gradients: Sequence[Sequence[tf.Tensor]]
    ) -> list[tuple[towers.Placed, tf.Tensor]]:
        updates = []
        for placed, copies in zip(self._shared, zip(*gradients, strict=True), strict=True):
            updates.append((placed, towers.met_on(placed.variable.device, copies)))
        return updates

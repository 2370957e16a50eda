"""Every variable is on one host's parameter server, which sums and applies its gradients.

```
  ps 0: weights a ─► hosts ─► replicas ─► gradients ─► per host ─┬─► ps 0: summed and applied to a
  ps 1: weights b ─► hosts ─► replicas ─► gradients ─► per host ─┴─► ps 1: summed and applied to b
```
As tf_cnn_benchmarks has it with variables cached on each worker's CPU: weights and gradients cross
the network once per host, not once per replica. Synchronous: no step begins before the last update
is applied. `staged_vars` as with parameter_server.
"""

from collections.abc import Sequence

from scalemark.abilities import Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("cpu",),
    all_reduces=("none",),
    why="variables live on the parameter servers of all hosts, and gradients meet there",
    sends=Sends.UNKNOWN,
    in_your_code={
        "": "nothing synchronous; tf.distribute.ParameterServerStrategy updates without waiting"
    },
    stages=True,
    rank_jobs=("worker", "ps"),
)

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer import towers
from trainer.devices import Devices
from trainer.model_tower import Batch


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: towers.Optimizer
) -> "DistributedParameterServer":
    """Raise UnsupportedTrialError without parameter servers."""
    owners = towers.owners(spec, initial, devices)
    hosts = [host.host for host in devices.by_host]
    return DistributedParameterServer(
        initial, owners, devices, optimizer, staged=spec.staged_vars, hosts=hosts
    )


class DistributedParameterServer(towers.SharedVariables):
    inlines_towers = False
    reduction_ops = ("AddN",)

    def run_towers(self, tower: towers.Tower, batches: Sequence[Batch]) -> list[towers.TowerResult]:
        hosts = self._devices.by_host
        on_hosts = [towers.on_hosts(placed.variable, hosts) for placed in self._shared]
        weights: list[list[tf.Tensor]] = []
        for host, fetched in zip(hosts, zip(*on_hosts, strict=True), strict=True):
            for _ in host.replicas:
                weights.append(self._fetched(len(weights), fetched))
        return towers.run_explicit_towers(tower, batches, weights, self._devices)

    def reduce(
        self, gradients: Sequence[Sequence[tf.Tensor]]
    ) -> list[tuple[towers.Placed, tf.Tensor]]:
        hosts = [host.host for host in self._devices.by_host]
        updates = []
        for placed, copies in zip(self._shared, zip(*gradients, strict=True), strict=True):
            sums = list(map(towers.met_on, hosts, self._devices.split_by_host(copies)))
            updates.append((placed, towers.met_on(placed.variable.device, sums)))
        return updates

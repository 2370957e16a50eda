"""Every replica owns a copy of all variables, and applies the same all-reduced gradients.

```
  GPU 0: weights ─► gradients ─┐            ┌─► update weights
  GPU 1: weights ─► gradients ─┴ all-reduce ┴─► update weights
```
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from scalemark.abilities import MIRRORED, Sends, VariableUpdateAbilities, names, preferring

_ALL_REDUCES = preferring(("nccl", "none"), names("trainer/all_reduces"))
ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=_ALL_REDUCES,
    why=(
        "every GPU keeps its own copy of the variables; to reduce on the host ask for "
        "all_reduce=pscpu"
    ),
    sends=Sends.ALL_REDUCE,
    in_your_code={
        **MIRRORED,
        "nccl": f"{MIRRORED['nccl']}, or DistributedDataParallel of PyTorch",
        "": MIRRORED["none"],
    },
    repacks_with=_ALL_REDUCES,
    compacts=True,
)

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.collectives import GradientPacks
from trainer.devices import Devices
from trainer.model_tower import Batch, read_where_it_is
from trainer.towers import Optimizer, Placed, Tower, TowerResult, load, run_explicit_towers


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> "Replicated":
    all_reduce = load("all_reduces", spec.all_reduce).create(devices)
    packs = GradientPacks(all_reduce, spec.gradient_repacking, spec.compact_gradients)
    return Replicated(initial, devices, optimizer, packs)


class Replicated:
    inlines_towers = False

    def __init__(
        self,
        initial: Sequence[np.ndarray],
        devices: Devices,
        optimizer: Optimizer,
        packs: GradientPacks | None,
    ) -> None:
        """Without `packs` the replicas exchange nothing."""
        self._copies = [
            [Placed.create(value, device, optimizer) for value in initial]
            for device in devices.replicas
        ]
        self._devices, self._packs = devices, packs
        self.num_summed = len(devices.replicas) if packs else 1
        self.update_devices = devices.replicas
        self.reduction_devices = packs.all_reduce.reduction_devices if packs else ()
        self.reduction_ops = packs.all_reduce.reduction_ops if packs else ()

    def run_towers(self, tower: Tower, batches: Sequence[Batch]) -> list[TowerResult]:
        weights = []
        for copies in self._copies:
            weights.append([read_where_it_is(placed.variable) for placed in copies])
        return run_explicit_towers(tower, batches, weights, self._devices)

    def reduce(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[tuple[Placed, tf.Tensor]]:
        if self._packs and len(gradients) > 1:
            gradients = self._packs.sum(gradients, self._devices.replicas)
        updates: list[tuple[Placed, tf.Tensor]] = []
        for copies, of_replica in zip(self._copies, gradients, strict=True):
            updates += zip(copies, of_replica, strict=True)
        return updates

    def weights(self, replica: int) -> list[np.ndarray]:
        return [placed.variable.numpy() for placed in self._copies[replica]]

    def placed(self) -> Iterator[Placed]:
        return chain.from_iterable(self._copies)

"""tf.distribute.MirroredStrategy, which users know, to compare.

It mirrors the variables, runs the towers and reduces the gradients. Model, optimizer ops and input
are those of every other mode, so that only the way of sharing differs. all_reduce=collective passes
it nothing: that is what users have who choose nothing themselves.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from scalemark.abilities import MIRRORED, Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("collective", "nccl", "ring", "none", "pscpu", "hierarchical_copy"),
    why="these are the ways of tf.distribute.MirroredStrategy",
    sends=Sends.ALL_REDUCE,
    in_your_code={**MIRRORED, "": "tf.distribute.MirroredStrategy()"},
    repacks_with=("nccl", "hierarchical_copy"),
    even_only={"hierarchical_copy": "tf.distribute sums wrongly over an odd number of replicas"},
)

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import collective_util, cross_device_ops, cross_device_utils
from tensorflow.python.distribute.values import PerReplica

from scalemark.records.trial import TrialSpec
from trainer import UnsupportedTrialError
from trainer.devices import Devices, on_each
from trainer.model_tower import Batch
from trainer.towers import Optimizer, Placed, Tower, TowerResult

_KEYS_PER_STRATEGY = 1000
_strategies = count(1)  # collective keys must differ within the process


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> "Mirrored":
    """Raise UnsupportedTrialError for nccl without GPUs, and for what would be summed wrongly."""
    reduction = _ALL_REDUCES[spec.all_reduce](devices, spec.gradient_repacking)
    shared = strategy(devices, reduction.ops)
    return Mirrored(shared, initial, devices, optimizer, reduction.op, reduction.devices)


class Mirrored:
    inlines_towers = True  # as users write it

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        initial: Sequence[np.ndarray],
        devices: Devices,
        optimizer: Optimizer,
        reduction_op: str,
        reduction_devices: tuple[str, ...],
    ) -> None:
        self._strategy = strategy
        self._options = tf.distribute.experimental.CommunicationOptions()
        with self._strategy.scope():
            self._variables = [tf.Variable(value, dtype=tf.float32) for value in initial]

        def placed(replica: int) -> list[Placed]:
            own = [mirrored.values[replica] for mirrored in self._variables]
            return [Placed(copy, optimizer.create_slots(copy)) for copy in own]

        self._copies = on_each(devices.replicas, placed, range(len(devices.replicas)))
        self.num_summed = devices.num_all
        self.update_devices = devices.replicas
        self.reduction_devices = reduction_devices
        self.reduction_ops = (reduction_op,)

    def run_towers(self, tower: Tower, batches: Sequence[Batch]) -> list[TowerResult]:
        def replica_fn(replica: int, images: tf.Tensor, labels: tf.Tensor) -> TowerResult:
            weights = [placed.variable.read_value() for placed in self._copies[replica]]
            return tower(replica, weights, (images, labels))

        images, labels = zip(*batches, strict=True)
        numbers = PerReplica(tuple(range(len(batches))))
        merged = self._strategy.run(
            replica_fn, args=(numbers, PerReplica(images), PerReplica(labels))
        )
        gradients = zip(*map(self._local, merged.gradients), strict=True)
        results = zip(self._local(merged.loss), gradients, strict=True)
        return [TowerResult(loss, list(of_replica)) for loss, of_replica in results]

    def reduce(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[tuple[Placed, tf.Tensor]]:
        if self.num_summed == 1:
            return list(zip(self._copies[0], gradients[0], strict=True))
        copies = [PerReplica(of_variable) for of_variable in zip(*gradients, strict=True)]
        pairs = list(zip(copies, self._variables, strict=True))
        with tf.name_scope("reduce"):
            sums = self._strategy.extended.batch_reduce_to(
                tf.distribute.ReduceOp.SUM, pairs, self._options
            )
        updates: list[tuple[Placed, tf.Tensor]] = []
        of_replicas = zip(*map(self._local, sums), strict=True)
        for placed, of_replica in zip(self._copies, of_replicas, strict=True):
            updates += zip(placed, of_replica, strict=True)
        return updates

    def weights(self, replica: int) -> list[np.ndarray]:
        return [placed.variable.numpy() for placed in self._copies[replica]]

    def placed(self) -> Iterator[Placed]:
        return chain.from_iterable(self._copies)

    def _local(self, value: Any) -> tuple[tf.Tensor, ...]:
        return self._strategy.experimental_local_results(value)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """Cross-device ops of tf.distribute, the type of op they sum with, and where."""

    ops: cross_device_ops.CrossDeviceOps | None  # None: the strategy's own default
    op: str
    devices: tuple[str, ...]


def strategy(
    devices: Devices, ops: cross_device_ops.CrossDeviceOps | None
) -> tf.distribute.MirroredStrategy:
    """Return one that does not collide with others in this process; None = its own default ops."""

    class Strategy(tf.distribute.MirroredStrategy):
        _collective_key_base = _new_key_base()

    return Strategy(list(devices.replicas), cross_device_ops=ops)


def _new_key_base() -> int:
    return _KEYS_PER_STRATEGY * next(_strategies)


def _collective(devices: Devices, _num_packs: int) -> _Reduction:
    return _Reduction(None, "CollectiveReduceV2", devices.replicas)


def _none(devices: Devices, _num_packs: int) -> _Reduction:
    return _Reduction(cross_device_ops.ReductionToOneDevice(), "AddN", devices.replicas[:1])


def _pscpu(devices: Devices, _num_packs: int) -> _Reduction:
    return _Reduction(
        cross_device_ops.ReductionToOneDevice(reduce_to_device=devices.host),
        "AddN",
        (devices.host,),
    )


def _nccl(devices: Devices, num_packs: int) -> _Reduction:
    devices.check_own_gpus()
    return _Reduction(cross_device_ops.NcclAllReduce(num_packs), "NcclAllReduce", devices.replicas)


def _hierarchical_copy(devices: Devices, num_packs: int) -> _Reduction:
    """Refuse odd numbers: TensorFlow 2.21 loses the gradients of the last replica."""
    num_replicas = len(devices.replicas)
    if num_replicas > 1 and num_replicas % 2:
        raise UnsupportedTrialError(
            "tf.distribute's hierarchical_copy sums wrongly over an odd number of replicas; "
            f"num_gpus={num_replicas}"
        )
    return _Reduction(
        cross_device_ops.HierarchicalCopyAllReduce(num_packs), "AddN", devices.replicas
    )


def _ring(devices: Devices, _num_packs: int) -> _Reduction:
    """Ask for the ring: the strategy's own default would be NCCL on GPUs."""
    ring = collective_util.Options(implementation=collective_util.CommunicationImplementation.RING)
    keys = cross_device_utils.CollectiveKeys(group_key_start=_new_key_base())
    ops = cross_device_ops.CollectiveAllReduce(
        list(devices.replicas), len(devices.replicas), ring, keys
    )
    return _Reduction(ops, "CollectiveReduceV2", devices.replicas)


_ALL_REDUCES: dict[str, Callable[[Devices, int], _Reduction]] = {
    "collective": _collective,
    "none": _none,
    "pscpu": _pscpu,
    "nccl": _nccl,
    "hierarchical_copy": _hierarchical_copy,
    "ring": _ring,
}

"""Every replica of every host owns a copy of all variables; all of them reduce together.

```
  host 0: replica 0 ─► replica 1 ─┐         ring: one ring through all replicas, host by host
  host 1: replica 3 ◄─ replica 2 ◄┘         nccl: NCCL within each host, then a ring of one per host
```
No parameter server. tf_cnn_benchmarks called these all_reduce_spec=xring and nccl/xring. NCCL
itself never crosses hosts here: its op sums over the GPUs of one process (across hosts it is in
variable_update=multi_worker_mirrored).
"""

from collections.abc import Callable, Sequence

from scalemark.abilities import MULTI_WORKER, Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("ring", "nccl"),
    why="every replica of every host keeps its own copy, and all of them reduce together",
    sends=Sends.UNKNOWN,
    in_your_code={
        "nccl": f"{MULTI_WORKER}.NCCL, or DistributedDataParallel of PyTorch",
        "": f"{MULTI_WORKER}.RING, or DistributedDataParallel of PyTorch on gloo",
    },
    repacks_with=("ring", "nccl"),
    compacts=True,
    rank_jobs=("worker",),
)

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.all_reduces import nccl
from trainer.all_reduces.pscpu import copies_on
from trainer.collectives import GradientPacks
from trainer.devices import Devices, on_each
from trainer.towers import AllReduce, Optimizer
from trainer.variable_updates.replicated import Replicated


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> Replicated:
    """Raise UnsupportedTrialError for nccl on what is no physical GPU."""
    all_reduce = _ALL_REDUCES[spec.all_reduce](devices)
    return Replicated(
        initial,
        devices,
        optimizer,
        GradientPacks(all_reduce, spec.gradient_repacking, spec.compact_gradients),
    )


class ChunkedRing:
    """A ring of plain adds and sends over devices of any hosts, neighbors in their order.

    ```
      chunk 0:  replica 0 ─► 1 ─► 2 ─► 3   each adds its part; then the sum goes 3 ─► 0 ─► 1 ─► 2
      chunk 1:  replica 1 ─► 2 ─► 3 ─► 0   as many chunks as replicas, all at once
    ```
    TensorFlow 2.21's own ring, CollectiveReduceV2, waits for ever when one client drives devices of
    several processes: the client takes its own replicas for the whole group. Every link carries
    2 (N - 1) / N of the bytes each way (Patarasu and Yuan 2009), in 2 (N - 1) messages per tensor:
    with slow networks pack the gradients (gradient_repacking).
    """

    reduction_ops: tuple[str, ...] = ("AddN",)

    def __init__(self, devices: Sequence[str]) -> None:
        self.reduction_devices = tuple(devices)

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        devices = self.reduction_devices
        num, shape = len(devices), copies[0].shape
        sizes = [len(range(chunk, shape.num_elements(), num)) for chunk in range(num)]
        pieces = on_each(devices, lambda copy: tf.split(tf.reshape(copy, [-1]), sizes), copies)
        received = []
        for chunk in range(num):
            if sizes[chunk]:
                total = self.sum_chunk(chunk - 1, [own[chunk] for own in pieces])
                received.append(self.copy_chunk(chunk - 1, total))

        def joined(chunks: Sequence[tf.Tensor]) -> tf.Tensor:
            return tf.reshape(tf.concat(chunks, 0), shape)

        return on_each(devices, joined, zip(*received, strict=True))

    def sum_chunk(self, last: int, pieces: Sequence[tf.Tensor]) -> tf.Tensor:
        """Sum one piece of every replica around the ring, and end on the replica `last`."""
        num = len(pieces)
        first = (last + 1) % num
        total = pieces[first]
        for hop in range(1, num):
            replica = (first + hop) % num
            with tf.device(self.reduction_devices[replica]), tf.name_scope("reduce"):
                total = tf.add_n([total, pieces[replica]])
        return total

    def copy_chunk(self, owner: int, chunk: tf.Tensor) -> list[tf.Tensor]:
        """Copy what the replica `owner` has around the ring; return it on every replica."""
        num = len(self.reduction_devices)
        copies = [chunk] * num
        for hop in range(1, num):
            replica = (owner + hop) % num
            with tf.device(self.reduction_devices[replica]):
                copies[replica] = chunk = tf.identity(chunk)
        return copies


class NcclWithinHosts:
    """Sums with NCCL within each host; one replica of each host, in turn, exchanges the sums."""

    def __init__(self, devices: Devices) -> None:
        devices.check_own_gpus()
        self._devices, self._hosts = devices, devices.by_host
        self._within = [nccl.create(host) for host in self._hosts]
        self.reduction_devices = devices.replicas
        self.reduction_ops: tuple[str, ...] = ()
        if len(self._hosts[0].replicas) > 1:
            self.reduction_ops += ("NcclAllReduce",)
        if len(self._hosts) > 1:
            self.reduction_ops += ("AddN",)

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        by_host = zip(self._within, self._devices.split_by_host(copies), strict=True)
        sums = [within.sum(own, index) if len(own) > 1 else list(own) for within, own in by_host]
        if len(sums) == 1:
            return sums[0]
        turn = index % len(sums[0])
        ring = ChunkedRing([host.replicas[turn] for host in self._hosts])
        totals = ring.sum([of_host[turn] for of_host in sums], index)
        everywhere = []
        for host, total in zip(self._hosts, totals, strict=True):
            everywhere += copies_on(host.replicas, total)
        return everywhere


_ALL_REDUCES: dict[str, Callable[[Devices], AllReduce]] = {
    "ring": lambda devices: ChunkedRing(devices.replicas),
    "nccl": NcclWithinHosts,
}

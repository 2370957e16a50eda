"""Every replica of every host keeps and updates an equal shard of all variables, as `sharded`.

```
  gradients: shard 0  replica 1 ─► 2 ─► 3 ─► 0   each adds its part; replica 0 holds the sum
  weights:   shard 0  replica 0 ─► 1 ─► 2 ─► 3   when the next step begins
```
As many shards as replicas are on their way at once, host by host: a ring of plain adds and sends.
TensorFlow's collectives wait for ever when one client drives several processes. Every host's link
carries (N - 1) / N of the gradients and of the weights each way, as in distributed_all_reduce.
"""

from collections.abc import Sequence
from functools import partial

from scalemark.abilities import Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("ring",),
    why="each replica of each host keeps one shard, and gradients are summed on their way to it",
    sends=Sends.UNKNOWN,
    in_your_code={"": "fully_shard (FSDP) of PyTorch; nothing in tf.distribute"},
    repacks_with=("ring",),
    least_replicas=2,
    rank_jobs=("worker",),
)

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.collectives import EqualShards
from trainer.devices import Devices, on_each
from trainer.towers import Optimizer
from trainer.variable_updates.distributed_all_reduce import ChunkedRing


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> EqualShards:
    return EqualShards(spec, initial, devices, optimizer, ShardRing(devices))


class ShardRing:
    """Half of a ring sums each shard on its replica, the other half copies it to all."""

    reduction_ops = ChunkedRing.reduction_ops

    def __init__(self, devices: Devices) -> None:
        self._ring = ChunkedRing(devices.replicas)
        self.shard_numbers: Sequence[int] = range(len(devices.replicas))

    def scatter(self, rows: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        devices = self._ring.reduction_devices
        pieces = on_each(devices, lambda row: tf.split(row, len(rows)), rows)
        return [
            self._ring.sum_chunk(number, [own[number] for own in pieces])
            for number in self.shard_numbers
        ]

    def gather(self, shards: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        received = []
        for number, shard in enumerate(shards):
            received.append(self._ring.copy_chunk(number, shard))
        parts = zip(*received, strict=True)
        with tf.name_scope("gather"):
            return on_each(self._ring.reduction_devices, partial(tf.concat, axis=0), parts)

"""A variable update whose replicas keep an equal shard of each message's elements.

```
  elements of all variables, in a row:  │ message 0      ...│ message 1      ...│   ... = padding
  shards of each message, 3 replicas:   │  0  │  1  │  2  ..│  0  │  1  │  2  ..│
```
A message is a tensor, or one of `gradient_repacking` packs of the row. Gradients are scattered
last message first, as the backward pass brings them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer.collectives.exchanges import Exchange
from trainer.cuts import Piece, cuts
from trainer.devices import Devices
from trainer.errors import UnsupportedTrialError
from trainer.gradient_packs import pack, unpack
from trainer.step import Batch
from trainer.towers import Optimizer, Placed, Tower, TowerResult, run_explicit_towers

_FIRST = 1  # number of the first message: 0 is that of the check of the order


class EqualShards:
    inlines_towers = False

    def __init__(
        self,
        spec: TrialSpec,
        initial: Sequence[np.ndarray],
        devices: Devices,
        optimizer: Optimizer,
        exchange: Exchange,
    ) -> None:
        """Raise UnsupportedTrialError where it gathers in another order than it sums."""
        _check_order(exchange, devices)
        self._devices, self._exchange = devices, exchange
        self._compact = spec.compact_gradients
        self._row = Row(initial, spec.gradient_repacking, len(devices.replicas))
        with tf.device(devices.host):
            rows = [row.numpy() for row in self._row.packed(initial)]
        self._shards: list[list[Placed]] = []  # of each replica, one per message
        for device, number in zip(devices.replicas, exchange.shard_numbers, strict=True):
            own = [np.split(row, len(devices.replicas))[number] for row in rows]
            self._shards.append([Placed.create(value, device, optimizer) for value in own])
        self.num_summed = len(devices.replicas)
        self.update_devices = self.reduction_devices = devices.replicas
        self.reduction_ops = exchange.reduction_ops

    def run_towers(self, tower: Tower, batches: Sequence[Batch]) -> list[TowerResult]:
        gathered = []
        for index, of_replicas in enumerate(zip(*self._shards, strict=True)):
            shards = []
            for placed in of_replicas:
                with tf.device(placed.variable.device):
                    shards.append(placed.variable.read_value())
            gathered.append(self._exchange.gather(shards, _FIRST + index))
        weights = []
        for device, rows in zip(self._devices.replicas, zip(*gathered, strict=True), strict=True):
            with tf.device(device), tf.name_scope("gather"):
                weights.append(self._row.unpacked(rows))
        return run_explicit_towers(tower, batches, weights, self._devices)

    def reduce(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[tuple[Placed, tf.Tensor]]:
        rows = []
        for device, of_replica in zip(self._devices.replicas, gradients, strict=True):
            with tf.device(device), tf.name_scope("pack"):
                packed = self._row.packed(of_replica)
                if self._compact:
                    packed = [tf.cast(row, tf.float16) for row in packed]
                rows.append(packed)
        updates: list[tuple[Placed, tf.Tensor]] = []
        for index in reversed(range(self._row.num_messages)):
            sums = self._exchange.scatter(
                [of_replica[index] for of_replica in rows], _FIRST + index
            )
            for placed, total in zip(self._shards, sums, strict=True):
                with tf.device(placed[index].variable.device):
                    updates.append((placed[index], tf.cast(total, tf.float32)))
        return updates

    def weights(self, replica: int) -> list[np.ndarray]:
        """Return the same for every replica, put together from all shards."""
        in_order = sorted(zip(self._exchange.shard_numbers, self._shards, strict=True))
        rows = []
        for index in range(self._row.num_messages):
            values = [placed[index].variable.numpy() for _, placed in in_order]
            rows.append(np.concatenate(values))
        with tf.device(self._devices.host):
            return [tensor.numpy() for tensor in self._row.unpacked(rows)]

    def placed(self) -> Iterator[Placed]:
        for of_replica in self._shards:
            yield from of_replica


class Row:
    """Cuts tensors in a row into messages, each padded to a multiple of the shards."""

    def __init__(self, tensors: Sequence[np.ndarray], num_packs: int, num_shards: int) -> None:
        self._shapes = [tf.TensorShape(tensor.shape) for tensor in tensors]
        sizes = [tensor.size for tensor in tensors]
        whole = [[Piece(number, 0, size)] for number, size in enumerate(sizes)]
        self._messages = cuts(sizes, num_packs) if num_packs else whole
        self.num_messages = len(self._messages)
        self._paddings = []
        for pieces in self._messages:
            length = sum(piece.end - piece.begin for piece in pieces)
            self._paddings.append(math.ceil(length / num_shards) * num_shards - length)

    def packed(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return the messages, flat, with zeros behind."""
        return pack(tensors, self._messages, self._paddings)

    def unpacked(self, messages: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return unpack(messages, self._messages, self._shapes, self._paddings)


def _check_order(exchange: Exchange, devices: Devices) -> None:
    """Sum and gather the numbers of shards once, on these devices."""
    num = len(devices.replicas)
    numbers = [float(number) for number in range(num)]

    @tf.function(autograph=False)
    def summed_and_gathered() -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        rows = []
        for device in devices.replicas:
            with tf.device(device):
                rows.append(tf.constant(numbers))
        sums = exchange.scatter(rows, 0)
        return sums, exchange.gather(sums, 0)

    sums, gathered = summed_and_gathered()
    held = [round(float(total[0]) / num) for total in sums]
    in_order = [num * number for number in numbers]
    if held != list(exchange.shard_numbers) or gathered[0].numpy().tolist() != in_order:
        raise UnsupportedTrialError(
            f"all shards are gathered in another order than their sums are dealt out: {held} where "
            f"{list(exchange.shard_numbers)} was wanted; choose all_reduce=none"
        )

"""A ring of plain adds and sends, over devices of any hosts: each replica talks to its neighbors
alone.

```
  chunk 0:  replica 0 ─► 1 ─► 2 ─► 3   each adds its own part on the way; then the sum goes round: 3 ─► 0 ─► 1 ─► 2
  chunk 1:  replica 1 ─► 2 ─► 3 ─► 0   as many chunks as replicas, all at once
```
TensorFlow 2.21's own ring, CollectiveReduceV2, waits for ever when one client drives devices of
several processes: the client takes its own replicas for the whole group. Every link carries 2 (N -
1) / N of the bytes each way (Patarasu and Yuan 2009), in 2 (N - 1) messages per tensor: with slow
networks pack the gradients (gradient_repacking).
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


class ChunkedRing:
    """Sums over `devices`, neighbors in their order. The protocol stands in `trainer/towers.py`."""

    reduction_ops: tuple[str, ...] = ("AddN",)

    def __init__(self, devices: Sequence[str]) -> None:
        self.reduction_devices = tuple(devices)

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        devices = self.reduction_devices
        num, shape = len(devices), copies[0].shape
        sizes = [len(range(chunk, shape.num_elements(), num)) for chunk in range(num)]
        pieces = []
        for device, copy in zip(devices, copies, strict=True):
            with tf.device(device):
                pieces.append(tf.split(tf.reshape(copy, [-1]), sizes))
        received = [
            self._round(chunk, [own[chunk] for own in pieces])
            for chunk in range(num)
            if sizes[chunk]
        ]
        sums = []
        for device, chunks in zip(devices, zip(*received, strict=True), strict=True):
            with tf.device(device):
                sums.append(tf.reshape(tf.concat(chunks, 0), shape))
        return sums

    def _round(self, first: int, pieces: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Sum one chunk of every replica, starting at `first`; return the sum on every replica."""
        num = len(pieces)
        order = [(first + hop) % num for hop in range(num)]
        total = pieces[first]
        for replica in order[1:]:
            with tf.device(self.reduction_devices[replica]), tf.name_scope("reduce"):
                total = tf.add_n([total, pieces[replica]])
        found = [total] * num
        for replica in order[:-1]:
            with tf.device(self.reduction_devices[replica]):
                found[replica] = total = tf.identity(total)
        return found

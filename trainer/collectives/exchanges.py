"""Ways to sum a row of gradients at its shards, and to gather a row of weights from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from trainer.collectives.group import Group
from trainer.devices import Devices

_RANKS_KEY = 0  # of messages: above
_KINDS = 2  # a message is summed under one key and gathered under the next


class Exchange(Protocol):
    """Messages between replicas that hold a shard of a row each; `index` is a message's number."""

    reduction_ops: tuple[str, ...]  # the types of op that sum, in the name scope `reduce`
    shard_numbers: Sequence[int]  # which shard of a row each replica holds

    def scatter(self, rows: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        """Rows (n S,) of all replicas -> the sum (S,) of its shard on each replica."""

    def gather(self, shards: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        """Shards (S,) of all replicas -> the row (n S,) on every replica."""


class _Collectives:
    def __init__(self, group: Group, shard_numbers: Sequence[int]) -> None:
        self._group, self.shard_numbers = group, shard_numbers

    def gather(self, shards: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        with tf.name_scope("gather"):
            rows = self._group.gather(shards, _KINDS * index + 2)
        return _with_length(rows, len(shards) * shards[0].shape[0])


class NcclExchange(_Collectives):
    """One NCCL kernel per message and GPU."""

    reduction_ops: tuple[str, ...] = ("CollectiveReduceScatterV2",)

    def scatter(self, rows: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        with tf.name_scope("reduce"):
            sums = self._group.reduce_scatter(rows, _KINDS * index + 1)
        return _with_length(sums, rows[0].shape[0] // len(rows))


class RingExchange(_Collectives):
    """TensorFlow's ring, which has no reduce-scatter: it sums whole rows, of which shards are cut.

    So it sends twice the gradients that are needed.
    """

    reduction_ops: tuple[str, ...] = ("CollectiveReduceV2",)

    def scatter(self, rows: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        with tf.name_scope("reduce"):
            totals = self._group.reduce(rows, _KINDS * index + 1)
        length = rows[0].shape[0] // len(rows)
        sums = []
        for device, number, total in zip(
            self._group.devices, self.shard_numbers, totals, strict=True
        ):
            with tf.device(device):
                sums.append(total[number * length : (number + 1) * length])
        return sums


def nccl(devices: Devices) -> NcclExchange:
    """Raise UnsupportedTrialError unless every replica has its own physical GPU."""
    devices.check_own_gpus()
    group = Group(devices.replicas, "nccl")
    return NcclExchange(group, group.ranks(_RANKS_KEY))


def ring(devices: Devices) -> RingExchange:
    group = Group(devices.replicas, "ring")
    return RingExchange(group, group.ranks(_RANKS_KEY))


def _with_length(tensors: Sequence[tf.Tensor], length: int) -> list[tf.Tensor]:
    """Say the length of each, which TensorFlow does not infer."""
    for tensor in tensors:
        tensor.set_shape([length])
    return list(tensors)

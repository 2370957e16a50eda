"""Devices of one process that take part in TensorFlow's collectives together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import tensorflow as tf

_groups = count(1)  # group keys must differ within the process


class Group:
    """Builds one op per device; the key of each collective must be its own within the group."""

    def __init__(self, devices: Sequence[str], hint: str) -> None:
        """`hint` names the implementation, ring or nccl; CPU devices take their ring for both."""
        self.devices, self._hint = tuple(devices), hint
        self._key = next(_groups)
        # one per device: its collectives run in the order of the graph; without, they deadlock
        self._tokens = []
        for device in devices:
            with tf.device(device):
                self._tokens.append(tf.Variable(0.0))

    def reduce(self, copies: Sequence[tf.Tensor], key: int) -> list[tf.Tensor]:
        """Sum on every device."""
        return self._built(tf.raw_ops.CollectiveReduceV2, copies, key, merge_op="Add")

    def reduce_scatter(self, rows: Sequence[tf.Tensor], key: int) -> list[tf.Tensor]:
        """Rows (n S,) -> sums (S,): each device has the part of its rank. NCCL alone has it."""
        return self._built(tf.raw_ops.CollectiveReduceScatterV2, rows, key, merge_op="Add")

    def gather(self, parts: Sequence[tf.Tensor], key: int) -> list[tf.Tensor]:
        """Parts (S,) -> rows (n S,) on every device, in the order of ranks."""
        return self._built(tf.raw_ops.CollectiveGatherV2, parts, key)

    def ranks(self, key: int) -> list[int]:
        """Ask TensorFlow for the rank of each device.

        It orders GPUs by the links between them, so that the ranks may not be in our order.
        """

        @tf.function(autograph=False)
        def in_order_of_ranks() -> tf.Tensor:
            numbers = []
            for number, device in enumerate(self.devices):
                with tf.device(device):
                    numbers.append(tf.constant([float(number)]))
            return self.gather(numbers, key)[0]

        by_rank = [int(number) for number in in_order_of_ranks().numpy()]
        return [by_rank.index(number) for number in range(len(self.devices))]

    def _built(
        self, op: Any, inputs: Sequence[tf.Tensor], key: int, **options: str
    ) -> list[tf.Tensor]:
        if options:
            options["final_op"] = "Id"
        outputs = []
        for device, token, each in zip(self.devices, self._tokens, inputs, strict=True):
            with tf.device(device):
                output = op(
                    input=each,
                    group_size=len(self.devices),
                    group_key=self._key,
                    instance_key=key,
                    ordering_token=[token.handle],
                    communication_hint=self._hint,
                    **options,
                )
            outputs.append(output)
        return outputs

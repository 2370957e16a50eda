"""Packs of gradients, and reduce-scatter and all-gather over equal shards.

With `gradient_repacking` all gradients of a replica travel as a few packs of equal size, in half
precision if asked: few large messages instead of one per tensor. A tensor may begin in one pack and
end in the next.

```
  elements of all variables, in a row:  │ message 0      ...│ message 1      ...│   ... = padding
  shards of each message, 3 replicas:   │  0  │  1  │  2  ..│  0  │  1  │  2  ..│
```
`sharded` variable updates exchange shards; a message is a tensor, or a pack of the row. Gradients
are scattered last message first, as the backward pass brings them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer import UnsupportedTrialError
from trainer.devices import Devices, on_each
from trainer.model_tower import Batch, read_where_it_is
from trainer.towers import AllReduce, Optimizer, Placed, Tower, TowerResult, run_explicit_towers


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements begin..end of a flattened tensor."""

    tensor: int
    begin: int
    end: int


def cuts(sizes: Sequence[int], num: int) -> list[list[Piece]]:
    """Cut tensors in a row into `num` parts of like sizes; leave empty ones out."""
    total = sum(sizes)
    parts: list[list[Piece]] = []
    tensor, begin = 0, 0
    for part in range(num):
        room = total * (part + 1) // num - total * part // num
        pieces = []
        while room:
            end = min(sizes[tensor], begin + room)
            if end > begin:
                pieces.append(Piece(tensor, begin, end))
            room -= end - begin
            tensor, begin = (tensor + 1, 0) if end == sizes[tensor] else (tensor, end)
        if pieces:
            parts.append(pieces)
    return parts


@dataclass(frozen=True, slots=True)
class GradientPacks:
    """`num_packs` packs, or with 0 one message per tensor; `compact` sends and sums float16."""

    all_reduce: AllReduce
    num_packs: int
    compact: bool

    def sum(
        self,
        gradients: Sequence[Sequence[tf.Tensor]],
        devices: Sequence[str],
        receivers: Sequence[str] | None = None,
    ) -> list[list[tf.Tensor]]:
        """gradients[replica][variable] in, their sums out, in float32.

        They are on the same devices, or on `receivers`, to which the all-reduce sends them.
        """
        shapes = [gradient.shape for gradient in gradients[0]]
        sizes = [shape.num_elements() for shape in shapes]
        packs = cuts(sizes, self.num_packs) if self.num_packs else []

        def packed(of_replica: Sequence[tf.Tensor]) -> list[tf.Tensor]:
            messages = pack(of_replica, packs) if packs else list(of_replica)
            return cast(messages, tf.float16) if self.compact else messages

        def unpacked(received: Sequence[tf.Tensor]) -> list[tf.Tensor]:
            messages = cast(received, tf.float32) if self.compact else list(received)
            return unpack(messages, packs, shapes) if packs else messages

        with tf.name_scope("pack"):
            messages = on_each(devices, packed, gradients)
        sums = []
        for index, copies in enumerate(zip(*messages, strict=True)):
            sums.append(self.all_reduce.sum(copies, index))
        with tf.name_scope("unpack"):
            return on_each(receivers or devices, unpacked, zip(*sums, strict=True))


def cast(tensors: Sequence[tf.Tensor], dtype: tf.DType) -> list[tf.Tensor]:
    return [tf.cast(tensor, dtype) for tensor in tensors]


def parts_of(tensors: Sequence[tf.Tensor], pieces: Sequence[Piece]) -> list[tf.Tensor]:
    """Return these pieces, each flat; a whole tensor is not copied."""
    parts = []
    for piece in pieces:
        flat = tf.reshape(tensors[piece.tensor], [-1])
        is_whole = piece.end - piece.begin == flat.shape[0]
        parts.append(flat if is_whole else flat[piece.begin : piece.end])
    return parts


def whole_of(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Join flat parts; a single one is not copied."""
    if len(parts) == 1:
        return parts[0]
    return tf.concat(parts, 0)


def pack(
    tensors: Sequence[tf.Tensor],
    packs: Sequence[Sequence[Piece]],
    paddings: Sequence[int] | None = None,
) -> list[tf.Tensor]:
    """Join the pieces of each pack, and where asked for so many zeros behind them."""
    packed = []
    for pieces, padding in zip(packs, paddings or [0] * len(packs), strict=True):
        parts = parts_of(tensors, pieces)
        if padding:
            parts.append(tf.zeros([padding], parts[0].dtype))
        packed.append(whole_of(parts))
    return packed


def unpack(
    received: Sequence[tf.Tensor],
    packs: Sequence[Sequence[Piece]],
    shapes: Sequence[tf.TensorShape],
    paddings: Sequence[int] | None = None,
) -> list[tf.Tensor]:
    """Return the tensors of which `pack` made these packs."""
    parts: list[list[tf.Tensor]] = [[] for _ in shapes]
    for whole, pieces, padding in zip(received, packs, paddings or [0] * len(packs), strict=True):
        sizes = [piece.end - piece.begin for piece in pieces]
        of_pieces = tf.split(whole, [*sizes, padding] if padding else sizes)
        for piece, part in zip(pieces, of_pieces[: len(pieces)], strict=True):
            parts[piece.tensor].append(part)
    tensors = []
    for of_tensor, shape in zip(parts, shapes, strict=True):
        tensors.append(tf.reshape(whole_of(of_tensor), shape))
    return tensors


_groups = count(1)  # group keys must differ within the process


class CollectiveGroup:
    """Builds one op per device; the key of each collective must be its own within the group."""

    def __init__(self, devices: Sequence[str], hint: str) -> None:
        """`hint` names the implementation, ring or nccl; CPU devices take their ring for both."""
        self.devices, self._hint = tuple(devices), hint
        self._key = next(_groups)
        # one per device: its collectives run in the order of the graph; without, they deadlock
        self._tokens = on_each(devices, lambda: tf.Variable(0.0))

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
            numbers = map(float, range(len(self.devices)))
            parts = on_each(self.devices, lambda number: tf.constant([number]), numbers)
            return self.gather(parts, key)[0]

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


_RANKS_KEY = 0  # of messages: above
_KINDS = 2  # a message is summed under one key and gathered under the next


class RowExchange(Protocol):
    """Messages between replicas that hold a shard of a row each; `index` is a message's number."""

    reduction_ops: tuple[str, ...]  # the types of op that sum, in the name scope `reduce`
    shard_numbers: Sequence[int]  # which shard of a row each replica holds

    def scatter(self, rows: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        """Rows (n S,) of all replicas -> the sum (S,) of its shard on each replica."""

    def gather(self, shards: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        """Shards (S,) of all replicas -> the row (n S,) on every replica."""


class _Collectives:
    def __init__(self, group: CollectiveGroup, shard_numbers: Sequence[int]) -> None:
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

        def own_part(number: int, total: tf.Tensor) -> tf.Tensor:
            return total[number * length : (number + 1) * length]

        return on_each(self._group.devices, own_part, self.shard_numbers, totals)


def nccl(devices: Devices) -> NcclExchange:
    """Raise UnsupportedTrialError unless every replica has its own physical GPU."""
    devices.check_own_gpus()
    group = CollectiveGroup(devices.replicas, "nccl")
    return NcclExchange(group, group.ranks(_RANKS_KEY))


def ring(devices: Devices) -> RingExchange:
    group = CollectiveGroup(devices.replicas, "ring")
    return RingExchange(group, group.ranks(_RANKS_KEY))


def _with_length(tensors: Sequence[tf.Tensor], length: int) -> list[tf.Tensor]:
    """Say the length of each, which TensorFlow does not infer."""
    for tensor in tensors:
        tensor.set_shape([length])
    return list(tensors)


_FIRST = 1  # number of the first message: 0 is that of the check of the order


class EqualShards:
    inlines_towers = False

    def __init__(
        self,
        spec: TrialSpec,
        initial: Sequence[np.ndarray],
        devices: Devices,
        optimizer: Optimizer,
        exchange: RowExchange,
    ) -> None:
        """Raise UnsupportedTrialError where it gathers in another order than it sums."""
        _check_order(exchange, devices)
        self._devices, self._exchange = devices, exchange
        self._compact = spec.compact_gradients
        self._row = ShardRow(initial, spec.gradient_repacking, len(devices.replicas))
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
            shards = [read_where_it_is(placed.variable) for placed in of_replicas]
            gathered.append(self._exchange.gather(shards, _FIRST + index))
        rows = zip(*gathered, strict=True)
        with tf.name_scope("gather"):
            weights = on_each(self._devices.replicas, self._row.unpacked, rows)
        return run_explicit_towers(tower, batches, weights, self._devices)

    def reduce(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[tuple[Placed, tf.Tensor]]:
        with tf.name_scope("pack"):
            rows = on_each(self._devices.replicas, self._row.packed, gradients)
            if self._compact:
                rows = on_each(self._devices.replicas, partial(cast, dtype=tf.float16), rows)
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


class ShardRow:
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


def _check_order(exchange: RowExchange, devices: Devices) -> None:
    """Sum and gather the numbers of shards once, on these devices."""
    num = len(devices.replicas)
    numbers = [float(number) for number in range(num)]

    @tf.function(autograph=False)
    def summed_and_gathered() -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        rows = on_each(devices.replicas, lambda: tf.constant(numbers))
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

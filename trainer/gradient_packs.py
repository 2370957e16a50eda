"""Gradient repacking: all gradients of a replica travel as a few packs of equal size, in half
precision if asked.

Few large messages instead of one per tensor (tf_cnn_benchmarks' gradient_repacking); a tensor may
begin in one pack and end in the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from trainer.towers import AllReduce


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements begin..end of a flattened tensor."""

    tensor: int
    begin: int
    end: int


def cuts(sizes: Sequence[int], num: int) -> list[list[Piece]]:
    """Cut tensors in a row into `num` parts whose sizes differ by one element at most; leave empty
    ones out.
    """
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
        messages = []
        for device, of_replica in zip(devices, gradients, strict=True):
            with tf.device(device), tf.name_scope("pack"):
                packed = pack(of_replica, packs) if packs else list(of_replica)
                if self.compact:
                    packed = [tf.cast(message, tf.float16) for message in packed]
                messages.append(packed)
        by_message = [
            self.all_reduce.sum(copies, index)
            for index, copies in enumerate(zip(*messages, strict=True))
        ]
        sums = []
        for device, received in zip(
            receivers or devices, zip(*by_message, strict=True), strict=True
        ):
            with tf.device(device), tf.name_scope("unpack"):
                whole = list(received)
                if self.compact:
                    whole = [tf.cast(message, tf.float32) for message in whole]
                sums.append(unpack(whole, packs, shapes) if packs else whole)
        return sums


def parts_of(tensors: Sequence[tf.Tensor], pieces: Sequence[Piece]) -> list[tf.Tensor]:
    """Return these pieces, each flat; a whole tensor is not copied."""
    parts = []
    for piece in pieces:
        flat = tf.reshape(tensors[piece.tensor], [-1])
        is_whole = piece.end - piece.begin == flat.shape[0]
        parts.append(flat if is_whole else flat[piece.begin : piece.end])
    return parts


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
        packed.append(parts[0] if len(parts) == 1 else tf.concat(parts, 0))
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
        whole = of_tensor[0] if len(of_tensor) == 1 else tf.concat(of_tensor, 0)
        tensors.append(tf.reshape(whole, shape))
    return tensors

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
class GradientPacks:
    """`num_packs` packs, or with 0 one message per tensor; `compact` sends and sums float16."""

    all_reduce: AllReduce
    num_packs: int
    compact: bool

    def sum(
        self, gradients: Sequence[Sequence[tf.Tensor]], devices: Sequence[str]
    ) -> list[list[tf.Tensor]]:
        """gradients[replica][variable] in, their sums out, on the same devices and in float32."""
        shapes = [gradient.shape for gradient in gradients[0]]
        cuts = _cuts([shape.num_elements() for shape in shapes], self.num_packs)
        messages = []
        for device, of_replica in zip(devices, gradients, strict=True):
            with tf.device(device), tf.name_scope("pack"):
                packed = _pack(of_replica, cuts) if cuts else list(of_replica)
                if self.compact:
                    packed = [tf.cast(message, tf.float16) for message in packed]
                messages.append(packed)
        by_message = [
            self.all_reduce.sum(copies, index)
            for index, copies in enumerate(zip(*messages, strict=True))
        ]
        sums = []
        for device, received in zip(devices, zip(*by_message, strict=True), strict=True):
            with tf.device(device), tf.name_scope("unpack"):
                whole = list(received)
                if self.compact:
                    whole = [tf.cast(message, tf.float32) for message in whole]
                sums.append(_unpack(whole, cuts, shapes) if cuts else whole)
        return sums


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements begin..end of a flattened tensor."""

    tensor: int
    begin: int
    end: int


def _cuts(sizes: Sequence[int], num_packs: int) -> list[list[_Piece]]:
    """Cut packs whose sizes differ by one element at most; leave empty ones out."""
    if not num_packs:
        return []
    total = sum(sizes)
    packs: list[list[_Piece]] = []
    tensor, begin = 0, 0
    for pack in range(num_packs):
        room = total * (pack + 1) // num_packs - total * pack // num_packs
        pieces = []
        while room:
            end = min(sizes[tensor], begin + room)
            if end > begin:
                pieces.append(_Piece(tensor, begin, end))
            room -= end - begin
            tensor, begin = (tensor + 1, 0) if end == sizes[tensor] else (tensor, end)
        if pieces:
            packs.append(pieces)
    return packs


def _pack(gradients: Sequence[tf.Tensor], cuts: Sequence[Sequence[_Piece]]) -> list[tf.Tensor]:
    flat = [tf.reshape(gradient, [-1]) for gradient in gradients]
    packs = []
    for pieces in cuts:
        parts = [flat[piece.tensor][piece.begin : piece.end] for piece in pieces]
        packs.append(tf.concat(parts, 0))
    return packs


def _unpack(
    packs: Sequence[tf.Tensor], cuts: Sequence[Sequence[_Piece]], shapes: Sequence[tf.TensorShape]
) -> list[tf.Tensor]:
    parts: list[list[tf.Tensor]] = [[] for _ in shapes]
    for pack, pieces in zip(packs, cuts, strict=True):
        sizes = [piece.end - piece.begin for piece in pieces]
        for piece, part in zip(pieces, tf.split(pack, sizes), strict=True):
            parts[piece.tensor].append(part)
    tensors = []
    for of_tensor, shape in zip(parts, shapes, strict=True):
        whole = of_tensor[0] if len(of_tensor) == 1 else tf.concat(of_tensor, 0)
        tensors.append(tf.reshape(whole, shape))
    return tensors

"""Cuts tensors in a row into equal parts: shards, and packs of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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

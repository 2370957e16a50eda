"""Spreads variables over the devices that own them, whole or cut into equal shards, and cuts packs.

The trainer and the cost model share the rule of cutting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def owners(sizes: Sequence[float], num: int) -> list[int]:
    """Return the owner of each variable: the one of `num` with the fewest bytes so far, which is
    tf_cnn_benchmarks' rule.
    """
    load = [0.0] * num
    found = []
    for size in sizes:
        owner = load.index(min(load))
        load[owner] += size
        found.append(owner)
    return found


def spread(sizes: Sequence[float], num: int) -> tuple[float, ...]:
    """Return what each of `num` holds in the end."""
    load = [0.0] * num
    for size, owner in zip(sizes, owners(sizes, num), strict=True):
        load[owner] += size
    return tuple(load)


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

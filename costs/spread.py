"""Spread variables over the devices that own them: whole, or cut into equal shards."""

from __future__ import annotations

from collections.abc import Sequence


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


def shards(elements: Sequence[int], num: int) -> list[list[int]]:
    """Return the elements of the pieces in each of `num` equal shards of all in a row."""
    total = sum(elements)
    borders = [total * shard // num for shard in range(1, num + 1)]
    found: list[list[int]] = [[] for _ in range(num)]
    shard, end = 0, 0
    for size in elements:
        begin, end = end, end + size
        while begin < end:
            if begin == borders[shard]:
                shard += 1
                continue
            piece = min(end, borders[shard]) - begin
            found[shard].append(piece)
            begin += piece
    return found

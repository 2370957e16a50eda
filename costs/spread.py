"""Spread whole variables over the devices that own them, as tf_cnn_benchmarks does."""

from __future__ import annotations

from collections.abc import Sequence


def owners(sizes: Sequence[float], num: int) -> list[int]:
    """Return the owner of each variable: the one of `num` with the fewest bytes so far."""
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

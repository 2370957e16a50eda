"""Which groups of devices a trial may get: one answer for those who hand them out, reserve them and
play sweeps through.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The groups of the devices of one host, and how many trials may have one at once.

    ```
      aligned    [0 2 | 1 3 | 4 6 | 5 7]  so many that the next power of two is 2
                 [0 2   1 3 | 4 6   5 7]                                       4
      else       [0 2   1 3   4 6   5 7]  any that are free
    ```
    """

    # all devices, by their numbers; those that are well connected side by side
    order: tuple[int, ...]
    aligned: bool  # neighbors share switches, and free blocks are not broken up
    most_at_once: int  # trials that may run side by side

    def groups(self, num_gpus: int) -> list[tuple[int, ...]]:
        """Where so many devices are sought."""
        size = self._size(num_gpus)
        groups = [self._group(first, size) for first in range(0, len(self.order), size)]
        return [group for group in groups if len(group) >= num_gpus]

    def fits(self, num_gpus: int, free: Set[int]) -> bool:
        """Whether one of the groups has room among these devices."""
        return any(len(free & set(group)) >= num_gpus for group in self.groups(num_gpus))

    def rooms(self, num_gpus: int, free: Set[int]) -> list[tuple[int, ...]]:
        """What is free of each group that has room; only those that break up least, all equally
        good by that.
        """
        size = self._size(num_gpus)
        found = []
        for first in range(0, len(self.order), size):
            room = self._free_in(first, size, free)
            if len(room) >= num_gpus:
                found.append((self._free_around(first, size, free), room))
        least = min((around for around, _ in found), default=[])
        return [room for around, room in found if around == least]

    def _size(self, num_gpus: int) -> int:
        return 1 << (num_gpus - 1).bit_length() if self.aligned else len(self.order)

    def _group(self, first: int, size: int) -> tuple[int, ...]:
        return self.order[first : first + size]

    def _free_in(self, first: int, size: int, free: Set[int]) -> tuple[int, ...]:
        return tuple([device for device in self._group(first, size) if device in free])

    def _free_around(self, first: int, size: int, free: Set[int]) -> list[int]:
        """How many are free in the group, and in the ever larger ones that it is part of."""
        found = [len(self._free_in(first, size, free))]
        while size < len(self.order):
            size *= 2
            found.append(len(self._free_in(first // size * size, size, free)))
        return found

"""Says which groups of devices a trial may get, to all who hand out, reserve or simulate them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The groups of the devices of one host, and how many trials may have one at once.

    ```
      aligned    [0 2 | 1 3 | 4 6 | 5 7]  for 2 devices: blocks of the next power of two
                 [0 2   1 3 | 4 6   5 7]  for 3 or 4
      else       [0 2   1 3   4 6   5 7]  any that are free
    ```
    """

    order: tuple[int, ...]  # all devices, well connected ones side by side
    aligned: bool  # neighbors share switches, and free blocks are not broken up
    most_at_once: int  # trials that may run side by side
    per_host: int = 0  # devices of each of several hosts; 0 = all are of one

    def groups(self, num_gpus: int) -> list[tuple[int, ...]]:
        """Return the groups in which so many devices are sought."""
        size = self._size(num_gpus)
        starts = range(0, len(self.order), size)
        groups = [self.order[start : start + size] for start in starts]
        return [group for group in groups if len(group) >= num_gpus]

    def fits(self, num_gpus: int, free: Set[int]) -> bool:
        """Return whether one of the groups has room among the free devices."""
        return any(len(free & set(group)) >= num_gpus for group in self.groups(num_gpus))

    def rooms(self, num_gpus: int, free: Set[int]) -> list[tuple[int, ...]]:
        """Return the free devices of each group that has room, of those that break up least."""
        rooms: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        size = self._size(num_gpus)
        for start in range(0, len(self.order), size):
            room = self._free_in(start, size, free)
            if len(room) >= num_gpus:
                rooms.setdefault(self._num_free_around(start, size, free), []).append(room)
        return rooms[min(rooms)] if rooms else []

    def _size(self, num_gpus: int) -> int:
        if 0 < num_gpus <= self.per_host:
            return self.per_host
        if not self.aligned:
            return len(self.order)
        return 1 << (num_gpus - 1).bit_length()

    def _free_in(self, start: int, size: int, free: Set[int]) -> tuple[int, ...]:
        return tuple(device for device in self.order[start : start + size] if device in free)

    def _num_free_around(self, start: int, size: int, free: Set[int]) -> tuple[int, ...]:
        """Count the free devices of a group, and of the ever larger ones that it is part of."""
        counts = [len(self._free_in(start, size, free))]
        while size < len(self.order):
            size *= 2
            counts.append(len(self._free_in(start // size * size, size, free)))
        return tuple(counts)

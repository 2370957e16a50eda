"""Which GPUs are well connected: the best group of k, and an order in which aligned blocks are good groups."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from store.records import GpuLink, PcieLevel
from sweeper.machine import Inventory

MOST_TRIED = 16  # GPUs up to which all groups are tried: 12,870 of 8 in 16
_LEVELS = tuple(reversed(PcieLevel))  # the farthest first


def link_score(link: GpuLink) -> int:
    """Higher is faster: any NVLink beats none, more beat fewer, and the PCIe level decides between equals."""
    level = 1 + _LEVELS.index(PcieLevel(link.pcie)) if link.pcie else 0
    return 10 * link.num_nvlinks + level


@dataclass(frozen=True, slots=True)
class Connections:
    """How well each two devices of an inventory are connected, by their numbers."""

    scores: tuple[tuple[int, ...], ...]  # [one][other]

    @classmethod
    def of(cls, inventory: Inventory) -> Connections:
        by_pair = {frozenset(link.between): link_score(link) for link in inventory.links}
        uuids = [gpu.uuid for gpu in inventory.gpus] or [""] * inventory.num_devices
        return cls(tuple(tuple(by_pair.get(frozenset({one, other}), 0) for other in uuids) for one in uuids))

    def score(self, devices: Sequence[int]) -> tuple[int, int]:
        """Of a group, higher is better: its slowest pair, for a ring is as fast as that; then all pairs together."""
        scores = [self.scores[one][other] for one, other in itertools.combinations(devices, 2)]
        return min(scores, default=0), sum(scores)

    def best_group(self, devices: Sequence[int], num: int) -> tuple[int, ...]:
        """The best connected `num` of these devices; of equals the first in their order, in which it also comes."""
        if num == len(devices) or not self._differ(devices):
            return tuple(devices[:num])
        if len(devices) <= MOST_TRIED:
            return max(itertools.combinations(devices, num), key=self.score)  # max keeps the first of equals
        return max((self._grown(first, devices, num) for first in devices), key=self.score)

    def order(self, devices: Sequence[int]) -> tuple[int, ...]:
        """All of them, so that blocks of 2, 4, 8 ... aligned in this order are well connected."""
        if len(devices) <= 2:
            return tuple(devices)
        half = 1 << (len(devices) - 1).bit_length() - 1
        first = self.best_group(devices, half)
        rest = [device for device in devices if device not in first]
        return self.order(first) + self.order(rest)

    def _differ(self, devices: Sequence[int]) -> bool:
        pairs = itertools.combinations(devices, 2)
        return len({self.scores[one][other] for one, other in pairs}) > 1

    def _grown(self, first: int, devices: Sequence[int], num: int) -> tuple[int, ...]:
        """A group grown from one device, each time by the one best connected to it."""
        group = [first]
        while len(group) < num:
            others = [device for device in devices if device not in group]
            group.append(max(others, key=lambda other: self.score([*group, other])))
        return tuple(device for device in devices if device in group)

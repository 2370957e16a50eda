"""Finds well connected GPUs: the best group of k, and an order of good aligned blocks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.records.machine import GpuLink, PcieLevel
from sweeper.devices.machine import Inventory

# All groups of so many GPUs are tried: 12,870 of 8 in 16 take a tenth of a second. Boxes of more
# are switched all to all, and their GPUs are taken in PCI order.
MOST_TRIED = 16
_LEVELS = tuple(reversed(PcieLevel))  # the farthest first


def link_score(link: GpuLink) -> int:
    """Return a number that is higher for a faster link.

    Any NVLink beats none, more beat fewer, and the PCIe level decides between equals.
    """
    level = 1 + _LEVELS.index(PcieLevel(link.pcie)) if link.pcie else 0
    return 10 * link.num_nvlinks + level


@dataclass(frozen=True, slots=True)
class Connections:
    """The connection of each two devices of an inventory, by their numbers."""

    scores: tuple[tuple[int, ...], ...]  # [one][other]

    @classmethod
    def of(cls, inventory: Inventory) -> Connections:
        by_pair = {frozenset(link.between): link_score(link) for link in inventory.links}
        uuids = [gpu.uuid for gpu in inventory.gpus] or [""] * inventory.num_devices
        rows = []
        for one in uuids:
            rows.append(tuple(by_pair.get(frozenset({one, other}), 0) for other in uuids))
        return cls(tuple(rows))

    def score(self, devices: Sequence[int]) -> tuple[int, int]:
        """Return a group's slowest pair, which bounds a ring; then all pairs together."""
        scores = [self.scores[one][other] for one, other in itertools.combinations(devices, 2)]
        return min(scores, default=0), sum(scores)

    def best_group(self, devices: Sequence[int], num: int) -> tuple[int, ...]:
        """Return the best connected `num` of these devices, in their order; of equals the first."""
        if num == len(devices) or len(devices) > MOST_TRIED or not self._differ(devices):
            return tuple(devices[:num])
        # max keeps the first of equals
        return max(itertools.combinations(devices, num), key=self.score)

    def order(self, devices: Sequence[int]) -> tuple[int, ...]:
        """Return all of them so that aligned blocks of 2, 4, 8 ... are well connected."""
        if len(devices) <= 2:
            return tuple(devices)
        half = 1 << (len(devices) - 1).bit_length() - 1
        first = self.best_group(devices, half)
        rest = [device for device in devices if device not in first]
        return self.order(first) + self.order(rest)

    def _differ(self, devices: Sequence[int]) -> bool:
        pairs = itertools.combinations(devices, 2)
        return len({self.scores[one][other] for one, other in pairs}) > 1

"""Which GPUs are well connected: the best group of k, and an order in which aligned blocks are good
groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from scalemark.records.machine import GpuLink, PcieLevel
from sweeper.devices.machine import Inventory

MOST_TRIED = 16  # GPUs up to which all groups are tried: 12,870 of 8 in 16
_LEVELS = tuple(reversed(PcieLevel))  # the farthest first


def link_score(link: GpuLink) -> int:
    """Higher is faster: any NVLink beats none, more beat fewer, and the PCIe level decides between
    equals.
    """
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
        return cls(
            tuple(
                tuple(by_pair.get(frozenset({one, other}), 0) for other in uuids) for one in uuids
            )
        )

    def score(self, devices: Sequence[int]) -> tuple[int, int]:
        """Of a group, higher is better: its slowest pair, for a ring is as fast as that; then all
        pairs together.
        """
        scores = [self.scores[one][other] for one, other in itertools.combinations(devices, 2)]
        return min(scores, default=0), sum(scores)

    def best_group(self, devices: Sequence[int], num: int) -> tuple[int, ...]:
        """The best connected `num` of these devices; of equals the first in their order, in which
        it also comes.
        """
        if num == len(devices) or not self._differ(devices):
            return tuple(devices[:num])
        if len(devices) <= MOST_TRIED:
            # max keeps the first of equals
            return max(itertools.combinations(devices, num), key=self.score)
        return max(self._grown(devices, num), key=self.score)

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

    def _grown(self, devices: Sequence[int], num: int) -> list[tuple[int, ...]]:
        """From each device a group, grown each time by the one best connected to it: of equals the
        first. All of them at once, (groups, devices), for boxes of hundreds.
        """
        import numpy as np  # here, because only boxes of more GPUs than most have need it

        every = np.arange(len(devices))
        scores = np.array(
            [[self.scores[one][other] for other in devices] for one in devices], dtype=np.int64
        )
        weight = int(scores.sum()) + 1  # the slowest pair goes before all pairs together
        held = np.eye(len(devices), dtype=bool)
        # of the pairs that each device would add to a group, or has in it
        least, total = scores.copy(), scores.copy()
        slowest = np.full(len(devices), np.iinfo(np.int64).max)  # of a group's own pairs
        for _ in range(num - 1):
            ranked = np.minimum(least, slowest[:, None]) * weight + total
            best = np.where(held, -1, ranked).argmax(axis=1)
            slowest = np.minimum(slowest, least[every, best])
            held[every, best] = True
            least, total = np.minimum(least, scores[best]), total + scores[best]
        return [
            tuple(device for device, is_held in zip(devices, group, strict=True) if is_held)
            for group in held
        ]

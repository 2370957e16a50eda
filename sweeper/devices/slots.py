"""Hands out the devices of this host: which GPUs or stand-ins, which cores near them, and one core
to watch from.

```
  exclusive    one grant at a time: the best connected GPUs, all cores near them
  share_host   several: [0 1 2 3 | 4 5 6 7]  blocks of 1, 2, 4, 8 GPUs, aligned in the order of their connections,
                cores  01 23 45 67 ...       each with its own share of the cores near it
```
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from scalemark.records.devices import DeviceKind
from sweeper.devices.blocks import Blocks
from sweeper.devices.connections import Connections
from sweeper.devices.cores import allowed_cores
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError

LEAST_CORES_TO_SPARE_ONE = 8  # with fewer, a trial would miss it


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one attempt holds."""

    devices: tuple[int, ...]  # numbers in the inventory
    visible_devices: str  # CUDA_VISIBLE_DEVICES; empty on CPU stand-ins
    cores: tuple[int, ...]  # CPU cores it may run on; empty = all that the orchestrator may
    # a core of none of the trials, for what watches them; none where there is none to spare
    spare_core: int | None


class Slots:
    """Which devices are free, and who gets which; `blocks` tells it without knowing who holds what.
    Not for several threads.

    One of 8 or more cores, the last, is kept free of trials on GPUs and of trials side by side, for
    what watches them.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        share_host: bool,
        max_parallel: int | None,
        cores: tuple[int, ...] | None = None,
    ) -> None:
        """`cores` are those that trials may use, neighbors side by side; all that this process may
        use unless given.

        Raises SweepRefusedError for a max_parallel that means nothing.
        """
        if max_parallel is not None and max_parallel < 1:
            raise SweepRefusedError(f"launcher.max_parallel={max_parallel}: wanted 1 or more")
        if max_parallel is not None and max_parallel > 1 and not share_host:
            raise SweepRefusedError(
                f"launcher.max_parallel={max_parallel}: trials run one at a time with launcher.share_host=false; "
                "leave it out, or set launcher.share_host=true"
            )
        self.num_devices = inventory.num_devices
        self._inventory = inventory
        self._shares = share_host
        self._on_gpus = inventory.kind is DeviceKind.GPU
        self._cores, self._spare_core = self._spare(allowed_cores() if cores is None else cores)
        self._connections = Connections.of(inventory)
        # of 16 GPUs it takes a tenth of a second
        self._best_group = lru_cache(maxsize=64)(self._connections.best_group)
        self.blocks = Blocks(
            order=self._connections.order(range(self.num_devices)),
            aligned=share_host and self._on_gpus,
            most_at_once=(max_parallel or self._default_parallel()) if share_host else 1,
        )
        self._share_of = self._divide_cores()
        self._held: list[Grant] = []
        self._taken: set[int] = set()  # devices that somebody else has

    def fits(self, num_gpus: int) -> bool:
        """Is there room now? Raises ValueError for what can never fit: planning refuses it."""
        most = self._inventory.most_gpus_per_trial
        if not 1 <= num_gpus <= most:
            raise ValueError(f"num_gpus={num_gpus} can never fit: wanted 1 to {most}")
        return len(self._held) < self.blocks.most_at_once and self.blocks.fits(
            num_gpus, self._free()
        )

    def most_that_fits(self) -> int:
        """Devices of the widest trial that there is room for now; 0 where there is none."""
        return next(
            (num for num in range(self._inventory.most_gpus_per_trial, 0, -1) if self.fits(num)), 0
        )

    def free_devices(self) -> list[int]:
        """Those that nobody is known to have."""
        return sorted(self._free())

    def take(self, num_gpus: int, visibility: str = "masked") -> Grant | None:
        """None: no room now. Raises ValueError for what can never fit: planning refuses it."""
        if not self.fits(num_gpus):
            return None
        devices = self._choose(num_gpus)
        grant = Grant(
            devices=devices,
            visible_devices=self._visible_devices(devices, visibility),
            cores=self._cores_for(devices),
            spare_core=self._spare_core,
        )
        self._held.append(grant)
        return grant

    def free(self, grant: Grant) -> None:
        """Raises ValueError for a grant that is not held: it was freed before, or is of other
        slots.
        """
        if grant not in self._held:
            raise ValueError(f"devices {grant.devices} are not held: freed twice?")
        self._held.remove(grant)

    def mark_taken(self, uuids: Collection[str]) -> None:
        """Somebody else has these, as `Inventory.uuids` names them: they are not free until
        `clear_taken`.
        """
        names = self._inventory.uuids(range(self.num_devices))
        self._taken.update(device for device, name in enumerate(names) if name in uuids)

    def clear_taken(self) -> None:
        """Nothing is known any more of what others have."""
        self._taken.clear()

    def _spare(self, cores: tuple[int, ...]) -> tuple[tuple[int, ...], int | None]:
        if len(cores) < LEAST_CORES_TO_SPARE_ONE or not (self._shares or self._on_gpus):
            return cores, None
        return cores[:-1], cores[-1]

    def _default_parallel(self) -> int:
        return self.num_devices if self._on_gpus else len(self._cores)

    def _free(self) -> set[int]:
        return set(range(self.num_devices)).difference(
            self._taken, *(grant.devices for grant in self._held)
        )

    def _visible_devices(self, devices: tuple[int, ...], visibility: str) -> str:
        """With visibility=all TensorFlow takes the first of them and hides the rest itself."""
        if not self._on_gpus:
            return ""
        others = [device for device in range(self.num_devices) if device not in devices]
        return ",".join(
            self._inventory.uuids((*devices, *others) if visibility == "all" else devices)
        )

    def _choose(self, num: int) -> tuple[int, ...]:
        """Of the rooms that break up least the best connected devices."""
        groups = [
            self._best_group(tuple(sorted(room)), num)
            for room in self.blocks.rooms(num, self._free())
        ]
        return max(groups, key=self._connections.score)  # max keeps the first of equals

    def _cores_for(self, devices: tuple[int, ...]) -> tuple[int, ...]:
        if not self._shares:
            return self._near(devices) if self._on_gpus else ()
        if self._on_gpus or len(self._cores) >= self.num_devices:
            return tuple(sorted({core for device in devices for core in self._share_of[device]}))
        return self._least_used(
            max(1, len(devices) * len(self._cores) // self.num_devices), first=devices[0]
        )

    def _near(self, devices: tuple[int, ...]) -> tuple[int, ...]:
        """All cores near any of these GPUs; all where that is not known, and for all GPUs."""
        known = {core for device in devices for core in self._inventory.gpus[device].cores}
        near = tuple(sorted(known.intersection(self._cores)))
        return near if near and len(devices) < self.num_devices else tuple(sorted(self._cores))

    def _least_used(self, num: int, *, first: int) -> tuple[int, ...]:
        """More trials than cores can be told apart: those that run overlap as little as can be.

        Of equally used ones those that go with the trial's first device: sweeps side by side have
        other devices, so other cores.
        """
        used = Counter(core for grant in self._held for core in grant.cores)
        start = first % len(self._cores)
        from_start = self._cores[start:] + self._cores[:start]
        return tuple(sorted(sorted(from_start, key=lambda core: used[core])[:num]))

    def _divide_cores(self) -> list[tuple[int, ...]]:
        """Each device's share. GPUs that are near the same cores divide those; where that is not
        known of all, all cores.

        All GPUs of the machine count, in an order that no mask changes: sweeps with other masks
        have other shares.
        """
        if not self._on_gpus:
            return [
                _part(self._cores, device, self.num_devices) for device in range(self.num_devices)
            ]
        gpus = self._inventory.machine_gpus or self._inventory.gpus
        near = [tuple(core for core in self._cores if core in gpu.cores) for gpu in gpus]
        groups = set(near)
        told_apart = all(groups) and not any(
            set(one) & set(other) for one, other in itertools.combinations(groups, 2)
        )
        if not told_apart:
            near = [self._cores] * len(gpus)
        share_of = {
            gpu.uuid: _part(cores, near[:place].count(cores), near.count(cores))
            for place, (gpu, cores) in enumerate(zip(gpus, near, strict=True))
        }
        return [share_of[gpu.uuid] for gpu in self._inventory.gpus]


def _part(cores: tuple[int, ...], place: int, num_parts: int) -> tuple[int, ...]:
    """One of so many parts; never empty, so that parts overlap where there are fewer cores than
    parts.
    """
    start, end = place * len(cores) // num_parts, (place + 1) * len(cores) // num_parts
    return cores[start : max(end, start + 1)]

"""Hands out the devices of this host, with CPU cores near them and a core to watch from, or hosts.

```
  exclusive    one grant at a time: the first GPUs, all cores near them
  share_host   several: the first of the free GPUs, each with its share of the cores
```
"""

import itertools
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from scalemark.records.attempt import Placement
from scalemark.records.machine import DeviceKind, Gpu
from scalemark.records.trial import TrialSpec
from sweeper.devices.machine import Inventory
from sweeper.devices.nvml import allowed_cores

LEAST_CORES_TO_SPARE_ONE = 8  # with fewer, a trial would miss it
REST_S = 30.0  # of a host that was lost, before it is tried again


class Slots(ABC):
    """Knows which devices are free, and grants them: a placement without what is the same for all
    attempts of a sweep. Not for several threads.
    """

    num_devices: int
    most_at_once: int  # trials that may run side by side
    packs: bool  # whether they do, and the order of trials heeds it

    def __init__(self, names: Sequence[str] = ()) -> None:
        """`names` are `Inventory.uuids`, where other sweeps may have some of the devices."""
        self._names = names
        self._held: list[Placement] = []
        self._taken: set[int] = set()  # devices that other sweeps have

    def width(self, spec: TrialSpec) -> int:
        """Return how many devices a trial takes."""
        return spec.num_gpus

    @abstractmethod
    def fits(self, width: int) -> bool:
        """Return whether there is room now."""

    @abstractmethod
    def take_for(self, spec: TrialSpec) -> Placement | None:
        """Grant devices for a trial; None when there is no room now."""

    def free(self, grant: Placement, *, is_lost: bool = False) -> None:
        """Take a grant back; `is_lost`: its hosts could not be reached.

        Raises ValueError when it is not held.
        """
        if grant not in self._held:
            raise ValueError(f"devices {grant.devices} are not held: freed twice?")
        self._held.remove(grant)

    def mark_taken(self, names: Collection[str]) -> None:
        """Note what another sweep has, until `clear_taken`."""
        for device, name in enumerate(self._names):
            if name in names:
                self._taken.add(device)

    def clear_taken(self) -> None:
        """Forget what other sweeps have."""
        self._taken.clear()


class DeviceSlots(Slots):
    """Hands out the devices of this host.

    One of 8 or more cores, the last, is kept free of trials on GPUs and of trials side by side, for
    what watches them.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        share_host: bool,
        cores: tuple[int, ...] | None = None,
    ) -> None:
        """`cores` are for trials, neighbors side by side; None: all of this process."""
        self.num_devices = inventory.num_devices
        super().__init__(inventory.uuids(range(self.num_devices)))
        self._inventory = inventory
        self._shares = share_host
        self._on_gpus = inventory.kind is DeviceKind.GPU
        if cores is None:
            cores = allowed_cores()
        self._cores = cores
        self._spare_core: int | None = None
        if len(self._cores) >= LEAST_CORES_TO_SPARE_ONE and (share_host or self._on_gpus):
            self._cores, self._spare_core = self._cores[:-1], self._cores[-1]
        self.packs, self.most_at_once = share_host, 1
        if share_host and self._on_gpus:
            self.most_at_once = self.num_devices
        elif share_host:
            self.most_at_once = len(self._cores)
        self._share_of = self._divide_cores()

    def fits(self, width: int) -> bool:
        """Raises ValueError for what can never fit, which planning refuses."""
        most = self._inventory.most_gpus_per_trial
        if not 1 <= width <= most:
            raise ValueError(f"num_gpus={width} can never fit: wanted 1 to {most}")
        return len(self._held) < self.most_at_once and len(self._free()) >= width

    def take(self, num_gpus: int) -> Placement | None:
        """Grant devices; None when there is no room now. Raises ValueError as `fits` does."""
        if not self.fits(num_gpus):
            return None
        devices = tuple(sorted(self._free())[:num_gpus])
        visible: Sequence[int] = ()
        if self._on_gpus:
            visible = devices
        grant = Placement(
            start="",
            devices=devices,
            visible_devices=",".join(self._inventory.uuids(visible)),
            cores=self._cores_for(devices),
            spare_core=self._spare_core,
        )
        self._held.append(grant)
        return grant

    def take_for(self, spec: TrialSpec) -> Placement | None:
        return self.take(spec.num_gpus)

    def _free(self) -> set[int]:
        free = set(range(self.num_devices)) - self._taken
        return free.difference(*(grant.devices for grant in self._held))

    def _cores_for(self, devices: tuple[int, ...]) -> tuple[int, ...]:
        if not self._shares and self._on_gpus:
            return self._near(devices)
        if not self._shares:
            return ()
        if self._on_gpus or len(self._cores) >= self.num_devices:
            shares = [self._share_of[device] for device in devices]
            return tuple(sorted(set(itertools.chain(*shares))))
        num = max(1, len(devices) * len(self._cores) // self.num_devices)
        return self._least_used(num, first=devices[0])

    def _near(self, devices: tuple[int, ...]) -> tuple[int, ...]:
        """Return all cores near any of these GPUs; all where none is known, and for all GPUs."""
        near: set[int] = set()
        for device in devices:
            near.update(self._inventory.gpus[device].cores)
        near.intersection_update(self._cores)
        if not near or len(devices) == self.num_devices:
            near = set(self._cores)
        return tuple(sorted(near))

    def _least_used(self, num: int, *, first: int) -> tuple[int, ...]:
        """Choose cores where devices outnumber them, so that running trials overlap least.

        Of equally used cores those are chosen that go with the trial's first device: sweeps side by
        side have other devices, so other cores.
        """
        used: Counter[int] = Counter()
        for grant in self._held:
            used.update(grant.cores)
        start = first % len(self._cores)
        from_start = self._cores[start:] + self._cores[:start]
        return tuple(sorted(sorted(from_start, key=lambda core: used[core])[:num]))

    def _divide_cores(self) -> list[tuple[int, ...]]:
        """Return each device's share; GPUs that are near the same cores divide those.

        All GPUs of the machine count, in an order that no mask changes, so that sweeps with other
        masks have other shares.
        """
        if not self._on_gpus:
            num = self.num_devices
            return [_part(self._cores, device, num) for device in range(num)]
        gpus = self._inventory.machine_gpus or self._inventory.gpus
        near = self._near_cores_of(gpus)
        share_of = {}
        for index, (gpu, cores) in enumerate(zip(gpus, near, strict=True)):
            num_before = near[:index].count(cores)
            share_of[gpu.uuid] = _part(cores, num_before, near.count(cores))
        return [share_of[gpu.uuid] for gpu in self._inventory.gpus]

    def _near_cores_of(self, gpus: Sequence[Gpu]) -> list[tuple[int, ...]]:
        """Return the cores near each GPU; all where those are unknown, or overlap in parts."""
        near = [tuple(core for core in self._cores if core in gpu.cores) for gpu in gpus]
        pairs = itertools.combinations(set(near), 2)
        overlap = any(set(cores) & set(others) for cores, others in pairs)
        if overlap or not all(near):
            return [self._cores] * len(gpus)
        return near


def _part(cores: tuple[int, ...], index: int, num_parts: int) -> tuple[int, ...]:
    """Return one of so many parts; parts overlap where there are fewer cores than parts."""
    start, end = index * len(cores) // num_parts, (index + 1) * len(cores) // num_parts
    return cores[start : max(end, start + 1)]


class HostSlots(Slots):
    """Hands out several equal hosts. Unless trials share a host, each takes its hosts whole.

    Devices are numbered through: host 1 of hosts with 8 has 8 to 15.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        per_host: int,
        on_gpus: bool,
        shares: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hosts` are names; where these are empty, the engine chooses."""
        super().__init__()
        self.num_devices = len(hosts) * per_host
        self.packs, self.most_at_once = True, len(hosts)
        if shares and on_gpus:
            self.most_at_once = self.num_devices
        self._hosts, self._per_host = hosts, per_host
        self._on_gpus, self._shares, self._clock = on_gpus, shares, clock
        self._rests_until_s: dict[int, float] = {}

    def width(self, spec: TrialSpec) -> int:
        if self._shares and spec.hosts == 1:
            return spec.num_gpus
        return spec.hosts * self._per_host

    def fits(self, width: int) -> bool:
        return len(self._held) < self.most_at_once and bool(self._choose(width))

    def take_for(self, spec: TrialSpec) -> Placement | None:
        width = self.width(spec)
        if not self.fits(width):
            return None
        chosen = self._choose(width)
        numbers = sorted({device // self._per_host for device in chosen})
        visible_devices = ""
        if self._on_gpus:
            used = [device % self._per_host for device in chosen][: spec.gpus_per_host]
            visible_devices = ",".join(map(str, used))
        grant = Placement(
            start="",
            devices=chosen,
            visible_devices=visible_devices,
            cores=(),
            spare_core=None,
            hosts=tuple(self._hosts[number] for number in numbers if self._hosts[number]),
            rank_start="prefix" if spec.hosts > 1 else "",
        )
        self._held.append(grant)
        return grant

    def free(self, grant: Placement, *, is_lost: bool = False) -> None:
        """Leave hosts that were lost alone for a while, or ask an engine for fewer."""
        for device in grant.devices if is_lost else ():
            self._rests_until_s[device // self._per_host] = self._clock() + REST_S
        super().free(grant)

    def _choose(self, width: int) -> tuple[int, ...]:
        """Return free devices: part of the fullest host with room, or whole hosts."""
        taken = {device for grant in self._held for device in grant.devices}
        rooms = []
        # those that were lost last come last: another may do
        for number in sorted(range(len(self._hosts)), key=self._rested_s):
            devices = range(number * self._per_host, (number + 1) * self._per_host)
            if self._rested_s(number) <= self._clock():
                rooms.append([device for device in devices if device not in taken])
        if width < self._per_host:
            fitting = [room for room in rooms if len(room) >= width]
            return tuple(min(fitting, key=len, default=[])[:width])
        whole = [device for room in rooms if len(room) == self._per_host for device in room]
        if len(whole) < width:
            return ()
        return tuple(sorted(whole[:width]))

    def _rested_s(self, number: int) -> float:
        """Return the time at which a host has rested from its last loss; 0 of one without any."""
        return self._rests_until_s.get(number, 0.0)

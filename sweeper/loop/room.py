"""Gives a trial what it runs on: devices that are free here, and that no other sweep and nobody
else has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from scalemark.records.trial import TrialSpec
from sweeper.devices.gpu_users import GpuUsers, said_in_use
from sweeper.devices.host_lock import Held, Lock
from sweeper.devices.machine import Inventory
from sweeper.devices.slots import Grant, Slots
from sweeper.launchers import HostSlots


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Devices and cores of one attempt, and the lock that keeps other sweeps off them."""

    grant: Grant
    held: Held


class Rooms:
    """Hands out rooms. `held_by` says who had what the last try lacked, and `others` is the part of
    it that no sweep has: the GPUs that other programs use.
    """

    def __init__(
        self,
        slots: Slots | HostSlots,
        host_lock: Lock,
        inventory: Inventory,
        tell: Callable[[str], object],
        *,
        shares_host: bool,
        gpu_users: GpuUsers,
    ) -> None:
        self.slots = slots
        self.held_by = self.others = ""
        self._gpu_users = gpu_users
        self._host_lock, self._inventory, self._shares_host = host_lock, inventory, shares_host
        self._tell = tell
        self._num_orphans = 0  # ended here, and said

    def take(self, spec: TrialSpec) -> Room | None:
        """None: others have the devices. Call when the slots have room."""
        self.held_by = ""
        while grant := self.slots.take_for(spec):
            names = self._inventory.uuids(grant.devices)
            held = self._host_lock.try_hold(names, shares_host=self._shares_host)
            self._report_orphans()
            if held is None:
                self.slots.free(grant)
                self._mark_taken()
                return None
            # only now: what other sweeps run is seen by their locks
            if self._mark_others(ours=names).isdisjoint(names):
                return Room(grant=grant, held=held)
            held.close()
            self.slots.free(grant)
        return None

    def leave(self, room: Room, *, is_lost: bool = False) -> None:
        """Take it back; what others had when it was taken may be free by now. `is_lost`: its host
        could not be reached.
        """
        if is_lost:
            self.slots.lost(room.grant)
        room.held.close()
        self.slots.free(room.grant)
        self.slots.clear_taken()

    def _mark_taken(self) -> None:
        """Mark what others have: without a device to blame, the whole host."""
        taken, slots = self._host_lock.taken, self.slots
        slots.mark_taken([taken] if taken else self._inventory.uuids(range(slots.num_devices)))
        self.held_by = self._host_lock.held_by

    def _mark_others(self, ours: Collection[str] = ()) -> set[str]:
        """Mark the GPUs that other programs use, and return them; what other sweeps run is seen by
        their locks. `ours` are those whose locks we have.
        """
        in_use = []
        for gpu in () if self._inventory.num_hosts else self._gpu_users.look():
            if gpu.uuid in ours or not self._host_lock.is_anothers(gpu.uuid):
                in_use.append(gpu)
        self.others = said_in_use(in_use) if in_use else ""
        self.held_by = self.held_by or self.others
        names = {gpu.uuid for gpu in in_use}
        self.slots.mark_taken(names)
        return names

    def _report_orphans(self) -> None:
        if num_new := self._host_lock.num_orphans - self._num_orphans:
            self._num_orphans += num_new
            self._tell(
                "killed what an earlier sweep left running on this host: "
                f"{num_new} {'process' if num_new == 1 else 'processes'}"
            )

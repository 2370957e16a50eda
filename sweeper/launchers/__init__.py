"""Decides where attempts run: one file per launcher, named as launcher.name has it.

A launcher is a file here and a choice in `conf/launcher/`. The file begins with ABILITIES (see
`scalemark/abilities/`) and has a class `Launcher`, made with the sweep's config and name. Making it
raises SweepRefusedError, with what there is, for what could never run; trials wider than the
inventory are refused by the plan. `start()` returns a `sweeper.starts.Start`, whose
`start(folder, environment)` reads trial.json and placement.json of the run folder, and returns a
`Process`: a local child, leader of its group, with `pid`, `descriptor` (a pidfd), `signal_group`
and `reap`. Deadlines, retries, recording and recovery look at that child and at the run folder
alone, so the child

- fills the run folder as the trainer does, result.json last, and ends with the trainer's status;
- heeds SIGINT and SIGTERM as the trainer does; after its SIGKILL the attempt must end, too;
- keeps a file `.token` in the folder while it waits for a host: deadlines begin when it is gone;
- ends with HOST_LOST, and a result.json that says why, where the host or the way to it was lost
  (the attempt is tried again) or the engine's time limit came (it is not).

Who has a command that runs its arguments elsewhere needs none of this: `prefix.Launcher` does it
all with that command, also for trials over several hosts, whose supervisor runs on this host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

from conf.schema import Config
from scalemark.abilities import LAUNCHERS
from scalemark.records.machine import Machine
from scalemark.records.trial import TrialSpec
from sweeper.devices.host_lock import Lock
from sweeper.devices.machine import Inventory
from sweeper.devices.slots import Blocks, Grant, Slots
from sweeper.errors import SweepRefusedError
from sweeper.program_software import Programs
from sweeper.starts import Start

REST_S = 30.0  # of a host that was lost, before it is tried again


class Launcher(Protocol):
    """See above."""

    # of its hosts, looked up before the plan
    machine: Machine
    inventory: Inventory
    software: Mapping[str, Any]

    def software_of(self, programs: Programs) -> tuple[Mapping[str, Any], Sequence[str]]:
        """Return what its hosts have of a user's programs, and what is not known of that."""
        ...

    def slots(self) -> Slots | HostSlots: ...
    def host_lock(self) -> Lock: ...
    def start(self) -> Start: ...


def load(config: Config, name: str) -> Launcher:
    """Make the launcher of the sweep `name`. Raises SweepRefusedError."""
    chosen = config.launcher.name
    if chosen not in LAUNCHERS:
        there_are = ", ".join(LAUNCHERS)
        raise SweepRefusedError(f"launcher={chosen}: no such launcher; there are {there_are}")
    module = import_module(f"{__name__}.{chosen}")
    return cast(Launcher, module.Launcher(config, name))


@dataclass(slots=True)
class HostSlots:
    """Hands out several equal hosts, as `Slots` does the devices of one.

    Devices are numbered through: host 1 of hosts with 8 has 8 to 15. Unless trials share a host,
    each takes its hosts whole.
    """

    hosts: Sequence[str]  # empty names: the engine chooses
    per_host: int
    on_gpus: bool
    shares: bool
    max_parallel: int | None = None
    clock: Callable[[], float] = time.monotonic
    _held: list[Grant] = field(default_factory=list)
    _rests_until_s: dict[int, float] = field(default_factory=dict)

    @property
    def num_devices(self) -> int:
        return len(self.hosts) * self.per_host

    @property
    def blocks(self) -> Blocks:
        most = self.num_devices if self.shares and self.on_gpus else len(self.hosts)
        return Blocks(
            order=tuple(range(self.num_devices)),
            aligned=False,
            most_at_once=self.max_parallel or most,
            per_host=self.per_host,
        )

    def width(self, spec: TrialSpec) -> int:
        if self.shares and spec.hosts == 1:
            return spec.num_gpus
        return spec.hosts * self.per_host

    def fits(self, width: int) -> bool:
        return len(self._held) < self.blocks.most_at_once and bool(self._choose(width))

    def take_for(self, spec: TrialSpec) -> Grant | None:
        width = self.width(spec)
        if not self.fits(width):
            return None
        chosen = self._choose(width)
        numbers = sorted({device // self.per_host for device in chosen})
        used = [device % self.per_host for device in chosen][: spec.gpus_per_host]
        grant = Grant(
            devices=chosen,
            visible_devices=",".join(map(str, used)) if self.on_gpus else "",
            cores=(),
            spare_core=None,
            hosts=tuple(self.hosts[number] for number in numbers if self.hosts[number]),
            rank_start="prefix" if spec.hosts > 1 else "",
        )
        self._held.append(grant)
        return grant

    def free(self, grant: Grant) -> None:
        self._held.remove(grant)

    def lost(self, grant: Grant) -> None:
        """Leave the hosts of a grant alone for a while, or ask an engine for fewer."""
        for device in grant.devices:
            self._rests_until_s[device // self.per_host] = self.clock() + REST_S

    def mark_taken(self, uuids: object) -> None:
        """Do nothing: who has a host is known there."""

    def clear_taken(self) -> None:
        """Do nothing, as above."""

    def _choose(self, width: int) -> tuple[int, ...]:
        """Return free devices: part of the fullest host with room, or whole hosts."""
        taken = {device for grant in self._held for device in grant.devices}
        rooms = []
        for number in range(len(self.hosts)):
            devices = range(number * self.per_host, (number + 1) * self.per_host)
            if self._rests_until_s.get(number, 0.0) <= self.clock():
                rooms.append([device for device in devices if device not in taken])
        if width < self.per_host:
            fitting = [room for room in rooms if len(room) >= width]
            return tuple(min(fitting, key=len)[:width]) if fitting else ()
        whole = [room for room in rooms if len(room) == self.per_host]
        chosen = [device for room in whole for device in room][:width]
        return tuple(chosen) if len(chosen) == width else ()

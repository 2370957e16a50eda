"""Decides where attempts run: one file per launcher, named as launcher.name has it.

A launcher is a file here and a choice in `conf/launcher/`. The file begins with ABILITIES (see
`scalemark/abilities/`) and has a class `Launcher`, made with the sweep's config and name:

```
  machine, inventory, software   what its hosts have, looked up before the plan
  slots()                        hands out devices: `Slots`, or `HostSlots` for several hosts
  host_lock()                    keeps other sweeps off this host, where attempts run here
  start()                        starts an attempt with its placement, see below
```

Making it raises SweepRefusedError, with what there is, for what could never run; trials wider than
the inventory are refused by the plan. `start()` returns a `sweeper.starts.Start`, whose
`start(folder, environment)` reads trial.json and placement.json of the run folder, and returns a
`Process`: a local child, leader of its group, with `pid`, `descriptor` (a pidfd), `signal_group`
and `reap`. Deadlines, retries, recording and recovery look at that child and at the run folder
alone, so the child

- fills the run folder as the trainer does, result.json last, and ends with the trainer's status;
- heeds SIGINT and SIGTERM as the trainer does; after its SIGKILL the attempt must end, too;
- keeps a file `.token` in the folder while it waits for a host: deadlines begin when it is gone;
- ends with HOST_LOST, and a result.json that says why, where the host or the way to it was lost
  (the attempt is tried again) or the engine's time limit came (it is not).

Who has a command that runs its arguments elsewhere needs none of this: `Remote` starts
`sweeper.near` with an `Elsewhere` that has the command. Trials over several hosts: the supervisor
of ranks runs on this host, and `Placement.rank_start` names the file of `trainer/rank_starts/` that
starts ranks on `Placement.hosts`; their `Elsewhere`s are in the variable RANKS_VARIABLE.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any, Protocol, cast

from conf.schema import Config, HardwareConfig
from scalemark.abilities import LAUNCHERS
from scalemark.host import software
from scalemark.host.own_code import module_command, python_path
from scalemark.records.attempt import RANKS_VARIABLE, Placement
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind, Machine
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from sweeper.devices.blocks import Blocks
from sweeper.devices.host_lock import DEFAULT_FOLDER, Lock, NoHostLock
from sweeper.devices.machine import Inventory, describe_machine, take_inventory
from sweeper.devices.slots import Grant, Slots
from sweeper.errors import SweepRefusedError
from sweeper.far import MARK
from sweeper.near import Elsewhere, sent_variables
from sweeper.starts import Start
from sweeper.starts.spawn import Spawn, Spawned

MODULES = {Engine.tensorflow: "trainer", Engine.command: "command"}
LOOK_WITHIN_S = 60.0  # at a host, before the plan
REST_S = 30.0  # of a host that was lost, before it is tried again


class Launcher(Protocol):
    """See above."""

    machine: Machine
    inventory: Inventory
    software: Mapping[str, Any]

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
    rank_start: str  # of trials over several of them
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
        if len(self._held) >= self.blocks.most_at_once:
            return False
        return bool(self._choose(width))

    def take_for(self, spec: TrialSpec) -> Grant | None:
        width = self.width(spec)
        chosen = self._choose(width) if self.fits(width) else ()
        if not chosen:
            return None
        numbers = sorted({device // self.per_host for device in chosen})
        used = [device % self.per_host for device in chosen][: spec.gpus_per_host]
        grant = Grant(
            devices=chosen,
            visible_devices=",".join(map(str, used)) if self.on_gpus else "",
            cores=(),
            spare_core=None,
            hosts=tuple(self.hosts[number] for number in numbers if self.hosts[number]),
            rank_start=self.rank_start if spec.hosts > 1 else "",
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
            free = tuple(device for device in devices if device not in taken)
            if self._rests_until_s.get(number, 0.0) <= self.clock():
                rooms.append(free)
        if width < self.per_host:
            fitting = [room for room in rooms if len(room) >= width]
            return min(fitting, key=len)[:width] if fitting else ()
        whole = [room for room in rooms if len(room) == self.per_host]
        chosen = whole[: width // self.per_host]
        if len(chosen) * self.per_host < width:
            return ()
        return tuple(device for room in chosen for device in room)


class Remote(Spawn):
    """Starts `sweeper.near`; `where` and `ranks` say how an attempt gets to its hosts."""

    def __init__(
        self,
        where: Callable[[TrialSpec, Placement], Elsewhere],
        ranks: Callable[[TrialSpec, Placement], Sequence[Elsewhere]] = lambda *_: (),
    ) -> None:
        super().__init__()
        self._where, self._ranks = where, ranks

    def start(self, folder: RunFolder, environment: Mapping[str, str]) -> Spawned:
        spec, placement = folder.read_trial(), folder.read_placement()
        assert placement is not None
        where = self._where(spec, placement)
        self._command = module_command("sweeper.near", json.dumps(asdict(where)))
        ranks = [asdict(each) for each in self._ranks(spec, placement)]
        variables = dict(environment)
        if ranks:
            variables[RANKS_VARIABLE] = json.dumps(ranks)
        return super().start(folder, variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHost:
    """What a host told about itself."""

    machine: Machine
    kind: DeviceKind
    num_devices: int
    host_kind: str
    software: Mapping[str, Any]
    commit: str


class Elsewheres:
    """What launchers with a command have in common: they look at hosts, and compare them."""

    inventory: Inventory

    def __init__(self, config: Config) -> None:
        if config.engine is Engine.simulated:
            raise SweepRefusedError(
                f"engine=simulated: launcher={config.launcher.name} has hosts run trials, and "
                "simulated ones need none; choose launcher=local"
            )
        self.config = config
        self.module = MODULES[config.engine]

    def elsewhere(self, prefix: Sequence[str], **more: Any) -> Elsewhere:
        launcher = self.config.launcher
        return Elsewhere(
            prefix=tuple(prefix),
            python=launcher.python or sys.executable,
            module=self.module,
            shares_host=launcher.share_host,
            orphan_timeout_s=launcher.orphan_timeout_s,
            **more,
        )

    def here(self, **more: Any) -> Elsewhere:
        """Return how the supervisor of ranks runs: on this host, in the run folder."""
        return replace(self.elsewhere(("env",), **more), python=sys.executable, needs_folder=True)

    def look(
        self, prefix: Sequence[str], host: str, within_s: float | None = LOOK_WITHIN_S
    ) -> SeenHost:
        """Ask a host what it has. Raises SweepRefusedError."""
        launcher, hardware = self.config.launcher, self.config.hardware
        where = self.elsewhere(prefix)
        asked = {
            "device_kind": hardware.device_kind,
            "num_cpu_devices": hardware.num_cpu_devices,
            "pool": launcher.name,
            "environment": sent_variables(os.environ),
        }
        variables = {**os.environ, "PYTHONPATH": python_path(os.environ)}
        command = where.command(variables)
        named = f"launcher={launcher.name}: {host}"
        try:
            ended = subprocess.run(
                command,
                env=variables,
                input=json.dumps({"describes": asked}).encode() + b"\n",
                capture_output=True,
                timeout=within_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SweepRefusedError(f"{named} does not answer within {within_s:g} s") from error
        except OSError as error:
            raise SweepRefusedError(f"{named}: {command[0]}: {error.strerror}") from error
        lines = [line for line in ended.stdout.splitlines() if line.startswith(MARK)]
        if not lines:
            said = ended.stderr.decode(errors="replace").strip().splitlines()
            raise SweepRefusedError(
                f"{named} cannot run this project with {where.python}: "
                f"{said[-1] if said else f'exit code {ended.returncode}'}; mend the command or the "
                "host's environment, or set launcher.python"
            )
        answer = json.loads(lines[-1].removeprefix(MARK))
        if problem := answer.get("problem"):
            raise SweepRefusedError(f"{named}: {problem}")
        return SeenHost(
            machine=Machine.from_json(answer["machine"]),
            kind=DeviceKind(answer["kind"]),
            num_devices=answer["num_devices"],
            host_kind=answer["host_kind"],
            software=answer["software"],
            commit=answer["commit"],
        )

    def compare(self, seen: Mapping[str, SeenHost]) -> SeenHost:
        """Keep and return what the hosts have in common. Raises SweepRefusedError where they
        differ.
        """
        (first, host), *others = seen.items()
        if host.commit != software.commit():
            raise SweepRefusedError(
                f"{first} has commit {host.commit[:12] or 'unknown'} of this project, this host "
                f"{software.commit()[:12] or 'unknown'}; results of different code are never mixed"
            )
        for name, other in others:
            if other.machine.key != host.machine.key or other.host_kind != host.host_kind:
                raise SweepRefusedError(
                    f"{first} and {name} are different kinds of hosts ({_said(host)}; "
                    f"{_said(other)}), and their results do not mix; run a sweep for each kind"
                )
            if other.commit != host.commit or software.key(other.software) != software.key(
                host.software
            ):
                raise SweepRefusedError(
                    f"{first} and {name} have different versions: {_difference(host, other)}; "
                    "install the same on both"
                )
        self.machine, self.software, self.host_kind = host.machine, host.software, host.host_kind
        return host

    def inventory_of(
        self, seen: SeenHost, per_host: int | None, num_hosts: int, more: str
    ) -> Inventory:
        """Return the devices of each host. Raises SweepRefusedError for more than it has."""
        num = seen.num_devices if per_host is None else per_host
        if num > seen.num_devices or num < 1:
            raise SweepRefusedError(
                f"launcher={self.config.launcher.name}: {num} {seen.kind.plural} on each host were "
                f"asked for, {seen.machine.host} has {seen.num_devices}"
            )
        gpus = tuple(gpu for gpu in seen.machine.gpus if not gpu.mig_mode)
        return Inventory(
            kind=seen.kind,
            gpus=gpus[:num] if seen.kind is DeviceKind.GPU else (),
            num_devices=num,
            num_hosts=num_hosts,
            more_hosts=more,
        )

    def slots_on(self, hosts: Sequence[str], rank_start: str) -> HostSlots:
        """Return slots on hosts that each have the inventory."""
        return HostSlots(
            hosts=hosts,
            per_host=self.inventory.num_devices,
            on_gpus=self.inventory.kind is DeviceKind.GPU,
            shares=self.config.launcher.share_host,
            rank_start=rank_start,
            max_parallel=self.config.launcher.max_parallel,
        )

    def host_lock(self) -> Lock:
        return NoHostLock()


LOCKS = str(DEFAULT_FOLDER)


def describe(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer `Elsewheres.look`, on the host that it asks."""
    hardware = HardwareConfig(
        device_kind=asked["device_kind"], num_cpu_devices=asked["num_cpu_devices"]
    )
    os.environ.update(asked["environment"])
    try:
        machine = replace(describe_machine(hardware), pool=asked["pool"])
        inventory = take_inventory(machine, hardware, {})
    except SweepRefusedError as error:
        return {"problem": str(error)}
    return {
        "machine": machine.to_json(),
        "kind": inventory.kind.value,
        "num_devices": inventory.num_devices,
        "software": software.describe(),
        "commit": software.commit(),
        "host": platform.node(),
    }


def _said(seen: SeenHost) -> str:
    machine = seen.machine
    gpus = f", {len(machine.gpus)} x {machine.gpus[0].name}" if machine.gpus else ""
    return f"{machine.num_cores} cores {machine.cpu}{gpus}"


def _difference(host: SeenHost, other: SeenHost) -> str:
    if host.commit != other.commit:
        return f"commit {host.commit[:12]} and {other.commit[:12]}"
    for name in ("python", "kernel", "variables"):
        if host.software[name] != other.software[name]:
            return f"{name} {host.software[name]} and {other.software[name]}"
    mine, theirs = host.software["packages"], other.software["packages"]
    for name in sorted(mine.keys() | theirs.keys()):
        if mine.get(name) != theirs.get(name):
            return f"{name} {mine.get(name, 'none')} and {theirs.get(name, 'none')}"
    return "other software"

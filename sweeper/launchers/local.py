"""`launcher=local`: attempts are processes of this host, or run on a simulated one."""

from scalemark.abilities import LauncherAbilities

ABILITIES = LauncherAbilities(settings=None)

import os
from collections.abc import Mapping, Sequence
from typing import Any

from conf.schema import Config
from scalemark.host import software
from scalemark.host.own_code import module_command
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from sweeper.devices import machine
from sweeper.devices.host_lock import HostLock, Lock
from sweeper.devices.slots import DeviceSlots
from sweeper.launchers import Programs, describe_programs
from sweeper.starts import MODULES, Fork, Spawn, Start, environment


class Launcher:
    """Forks or spawns on this host."""

    def __init__(self, config: Config, name: str) -> None:
        self._config = config
        if config.engine is Engine.simulated:
            self.machine = machine.machine_of(machine.hardware_of(config.hardware))
            self.inventory = machine.inventory_of(self.machine)
        else:
            self.machine = machine.describe_machine(config.hardware)
            self.inventory = machine.take_inventory(self.machine, config.hardware)
        self.software = software.describe()

    def software_of(self, programs: Programs) -> tuple[Mapping[str, Any], Sequence[str]]:
        mends = not self._config.sweep.dry_run
        return describe_programs(programs, environment(os.environ, ""), mends=mends)

    def slots(self) -> DeviceSlots:
        return DeviceSlots(self.inventory, share_host=self._config.launcher.share_host)

    def host_lock(self) -> Lock:
        if self.inventory.kind is DeviceKind.SIMULATED_GPU:
            return Lock()
        return HostLock()

    def start(self) -> Start:
        module = MODULES[self._config.engine]
        if self._config.launcher.start.name == Fork.name:
            return Fork(module)
        return Spawn(module_command(module))

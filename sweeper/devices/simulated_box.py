"""Makes of a hardware profile the machine and the devices that simulated trials have. Nothing of
this machine is looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, fields, replace

from conf.schema import HardwareConfig
from costs.hardware import Hardware
from costs.profiles import profile, profiles
from costs.work import Work
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Gpu, GpuLink, Machine, PcieLevel
from scalemark.records.trial import TrialSpec
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError

# device_kind of those that are no profiles
_CHOICES = {"auto": "auto", "gpu": "gpu", DeviceKind.CPU_STAND_IN: "cpu"}


def hardware_of(config: HardwareConfig) -> Hardware:
    """The profile that was chosen, with what the command line changes of it. Raises
    SweepRefusedError.
    """
    if config.profile is None:
        chosen = _CHOICES.get(config.device_kind, config.device_kind)
        raise SweepRefusedError(
            f"engine=simulated: hardware={chosen} is no profile; choose one of "
            f"hardware={', '.join(profiles())}"
        )
    values = {one.name: getattr(config.profile, one.name) for one in fields(Hardware)}
    try:
        return Hardware.from_values(values)
    except ValueError as error:
        raise SweepRefusedError(f"hardware.profile: {error}") from error


def machine_of(hardware: Hardware) -> Machine:
    """Sources say nothing about what numbers depend on: without them, so that another wording makes
    no other machine.
    """
    gpus = tuple(_gpu(hardware, number) for number in range(hardware.num_gpus))
    return Machine(
        host=f"simulated-{hardware.name}{_changes(hardware)}",
        cpu="simulated",
        num_cores=hardware.num_cores,
        memory_bytes=round(hardware.host_memory_gib * 2**30),
        gpus=gpus,
        driver="simulated",
        links=tuple(_links(hardware, gpus)),
        hardware_profile=replace(hardware, sources={}).to_json(),
    )


def inventory_of(machine: Machine) -> Inventory:
    """All of its GPUs, whatever CUDA_VISIBLE_DEVICES says: that is about those of this machine."""
    return Inventory(
        hardware=Hardware.from_json(machine.hardware_profile),
        kind=DeviceKind.SIMULATED_GPU,
        gpus=machine.gpus,
        num_devices=len(machine.gpus),
        machine_gpus=machine.gpus,
        links=machine.links,
    )


def problem(spec: TrialSpec, hardware: Hardware) -> str | None:
    """Why the cost model cannot tell what this trial takes on this hardware; None when it can."""
    # here, because it needs numpy, and sweeps that measure need neither
    from costs.step import costs

    try:
        costs(Work.of(asdict(spec)), hardware)
    except ValueError as error:  # no such network, link or precision
        return f"engine=simulated: {error}"
    return None


def _changes(hardware: Hardware) -> str:
    """What distinguishes it from the profile that ships under its name, for people."""
    if hardware.name not in profiles():
        return ""
    shipped = profile(hardware.name)
    names = [one.name for one in fields(Hardware) if one.name != "sources"]
    changed = [name for name in names if getattr(hardware, name) != getattr(shipped, name)]
    return "".join(f"+{name}={_told(getattr(hardware, name))}" for name in changed)


def _told(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{each:g}" for name, each in sorted(value.items()))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _gpu(hardware: Hardware, number: int) -> Gpu:
    return Gpu(
        uuid=f"SIM-{hardware.name}-{number}",
        name=hardware.gpu,
        memory_bytes=round(hardware.memory_gib * 2**30),
        pci_bus_id=f"simulated:{number:02x}:00.0",
        compute_capability=hardware.compute_capability,
        power_limit_w=hardware.power_w,
        numa_node=number // hardware.gpus_per_socket,
    )


def _links(hardware: Hardware, gpus: tuple[Gpu, ...]) -> Iterator[GpuLink]:
    for one, other in itertools.combinations(range(len(gpus)), 2):
        clique = hardware.nvlink_clique
        linked = bool(hardware.nvlink_gb_per_s) and one // clique == other // clique
        yield GpuLink(
            between=(gpus[one].uuid, gpus[other].uuid),
            num_nvlinks=int(linked),
            pcie=_level(hardware, one, other),
        )


def _level(hardware: Hardware, one: int, other: int) -> PcieLevel:
    """GPUs are spread over boards, switches and sockets in their order, lowest numbers first."""
    groups = {
        PcieLevel.SAME_BOARD: hardware.gpus_per_board,
        PcieLevel.SINGLE_SWITCH: hardware.gpus_per_switch,
        PcieLevel.HOST_BRIDGE: hardware.gpus_per_socket,
    }
    return next(
        (level for level, size in groups.items() if one // size == other // size), PcieLevel.SYSTEM
    )

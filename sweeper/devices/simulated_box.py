"""Makes the machine and the devices of simulated trials from a hardware profile alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields

from conf.schema import HardwareConfig
from scalemark.records.machine import DeviceKind, Gpu, GpuLink, Machine, PcieLevel
from scalemark.records.trial import TrialSpec
from simulator.costs.box import Hardware, overrides_of, profiles
from simulator.costs.step import costs
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError

# device_kind of those that are no profiles
_CHOICES = {"auto": "auto", "gpu": "gpu", DeviceKind.CPU_DEVICE: "cpu"}


def hardware_of(config: HardwareConfig) -> Hardware:
    """Return the chosen profile, changed by the command line. Raises SweepRefusedError."""
    if config.profile is None:
        chosen = _CHOICES.get(config.device_kind, config.device_kind)
        raise SweepRefusedError(
            f"engine=simulated: hardware={chosen} is no profile; choose one of "
            f"hardware={', '.join(profiles())}"
        )
    values = {field.name: getattr(config.profile, field.name) for field in fields(Hardware)}
    try:
        return Hardware.from_values(values)
    except ValueError as error:
        raise SweepRefusedError(f"hardware.profile: {error}") from error


def machine_of(hardware: Hardware) -> Machine:
    """Describe the machine; its host is named by how it differs from a profile that ships."""
    host = f"simulated-{hardware.name}"
    for override in overrides_of(hardware.to_json())[2:]:
        host += f"+{override.rpartition('hardware.profile.')[2]}"
    gpus = tuple(_gpu(hardware, number) for number in range(hardware.num_gpus))
    return Machine(
        host=host,
        cpu="simulated",
        num_cores=hardware.num_cores,
        memory_bytes=round(hardware.host_memory_gib * 2**30),
        gpus=gpus,
        driver="simulated",
        links=tuple(_links(hardware, gpus)),
        hardware_profile=hardware.to_json(),
    )


def inventory_of(machine: Machine) -> Inventory:
    """Return all of its GPUs; CUDA_VISIBLE_DEVICES is about those of this machine."""
    return Inventory(
        hardware=Hardware.from_json(machine.hardware_profile),
        kind=DeviceKind.SIMULATED_GPU,
        gpus=machine.gpus,
        num_devices=len(machine.gpus),
        machine_gpus=machine.gpus,
        links=machine.links,
    )


def problem(spec: TrialSpec, hardware: Hardware) -> str | None:
    """Say why the cost model cannot play this trial on this hardware; None when it can."""
    try:
        costs(spec, hardware)
    except ValueError as error:  # no such network, link or precision
        return f"engine=simulated: {error}"
    return None


def _gpu(hardware: Hardware, number: int) -> Gpu:
    return Gpu(
        uuid=f"SIM-{hardware.name}-{number}",
        name=hardware.gpu,
        memory_bytes=round(hardware.memory_gib * 2**30),
        pci_bus_id=f"simulated:{number:02x}:00.0",
        compute_capability=hardware.compute_capability,
        power_limit_w=None,
        numa_node=number // hardware.gpus_per_socket,
    )


def _links(hardware: Hardware, gpus: tuple[Gpu, ...]) -> Iterator[GpuLink]:
    for number, other in itertools.combinations(range(len(gpus)), 2):
        clique = hardware.nvlink_clique
        linked = bool(hardware.nvlink_gb_per_s) and number // clique == other // clique
        yield GpuLink(
            between=(gpus[number].uuid, gpus[other].uuid),
            num_nvlinks=int(linked),
            pcie=_level(hardware, number, other),
        )


def _level(hardware: Hardware, number: int, other: int) -> PcieLevel:
    """Return the nearest level that both share; GPUs fill switches and sockets in order."""
    groups = {
        PcieLevel.SINGLE_SWITCH: hardware.gpus_per_switch,
        PcieLevel.HOST_BRIDGE: hardware.gpus_per_socket,
    }
    for level, size in groups.items():
        if number // size == other // size:
            return level
    return PcieLevel.SYSTEM

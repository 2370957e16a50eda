"""Finds the devices of hosts that were not seen, by the settings or the launcher's report."""

from __future__ import annotations

from dataclasses import replace

from conf.schema import Config
from scalemark.records.machine import DeviceKind
from sweeper.devices.machine import Inventory, cpu_devices
from sweeper.errors import SweepRefusedError


def devices_of_hosts(config: Config, gpus_per_host: int | None) -> Inventory:
    """Return the devices that each host has.

    `launcher.agents` comes first, then `gpus_per_host` as the launcher reports it; None where it
    does not. Raises SweepRefusedError for what the settings leave open, or contradict.
    """
    num_hosts = config.launcher.agents.num_hosts
    if num_hosts < 1:
        raise SweepRefusedError(f"launcher.agents.num_hosts={num_hosts}: wanted 1 or more")
    of_one = _devices_of_one_host(config, gpus_per_host)
    return replace(of_one, num_hosts=num_hosts, more_hosts="raise launcher.agents.num_hosts")


def _devices_of_one_host(config: Config, gpus_per_host: int | None) -> Inventory:
    hardware, name = config.hardware, config.launcher.name
    num_gpus = config.launcher.agents.gpus_per_host
    if num_gpus is not None:
        setting = f"launcher.agents.gpus_per_host={num_gpus}"
        if num_gpus < 1:
            raise SweepRefusedError(f"{setting}: wanted 1 or more, or null")
        if hardware.device_kind == DeviceKind.CPU_DEVICE:
            raise SweepRefusedError(
                f"{setting}: with hardware=cpu each host has hardware.num_cpu_devices; leave it out"
            )
        if gpus_per_host is not None and num_gpus > gpus_per_host:
            raise SweepRefusedError(
                f"{setting}: launcher={name} knows hosts with {gpus_per_host} at most"
            )
    if hardware.device_kind == DeviceKind.CPU_DEVICE:
        return cpu_devices(hardware)
    if num_gpus is None:
        num_gpus = gpus_per_host
    if num_gpus is None:
        raise SweepRefusedError(
            f"launcher={name}: the number of GPUs per host is unknown; set "
            "launcher.agents.gpus_per_host=8, or choose hardware=cpu for CPU devices"
        )
    if num_gpus > 0:
        return Inventory(kind=DeviceKind.GPU, gpus=(), num_devices=num_gpus)
    if hardware.device_kind == DeviceKind.GPU:
        raise SweepRefusedError(
            f"hardware=gpu: launcher={name} knows no host with GPUs; choose hardware=cpu"
        )
    return cpu_devices(hardware)

"""The devices of hosts that were not seen, by the settings and by what the engine that has them
tells.
"""

from __future__ import annotations

from dataclasses import replace

from conf.schema import Config
from scalemark.records.devices import DeviceKind
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError


def devices_of_hosts(config: Config, gpus_per_host: int | None) -> Inventory:
    """Of each host; `gpus_per_host` as the engine tells, None where it does not. What
    launcher.agents says comes first.

    Raises SweepRefusedError for what the settings leave open, or contradict.
    """
    num_hosts = config.launcher.agents.num_hosts
    if num_hosts < 1:
        raise SweepRefusedError(f"launcher.agents.num_hosts={num_hosts}: wanted 1 or more")
    of_one = _of_one_host(config, gpus_per_host)
    return replace(of_one, num_hosts=num_hosts, more_hosts="raise launcher.agents.num_hosts")


def _of_one_host(config: Config, gpus_per_host: int | None) -> Inventory:
    agents, hardware = config.launcher.agents, config.hardware
    said = agents.gpus_per_host
    if said is not None and said < 1:
        raise SweepRefusedError(f"launcher.agents.gpus_per_host={said}: wanted 1 or more, or null")
    if hardware.device_kind == "cpu_stand_in":
        if said is not None:
            raise SweepRefusedError(
                f"launcher.agents.gpus_per_host={said}: with hardware=cpu each host has "
                "hardware.num_stand_ins; leave it out"
            )
        return _stand_ins(config)
    if said is not None and gpus_per_host is not None and said > gpus_per_host:
        raise SweepRefusedError(
            f"launcher.agents.gpus_per_host={said}: launcher={config.launcher.name} knows "
            f"hosts with {gpus_per_host} at most"
        )
    num_gpus = said if said is not None else gpus_per_host
    if num_gpus is None:
        raise SweepRefusedError(
            f"launcher={config.launcher.name}: nobody tells how many GPUs each host has; say launcher.agents.gpus_per_host=8, "
            "or choose hardware=cpu for CPU stand-ins"
        )
    if num_gpus:
        return Inventory(kind=DeviceKind.GPU, gpus=(), num_devices=num_gpus)
    if hardware.device_kind == "gpu":
        raise SweepRefusedError(
            f"hardware=gpu: launcher={config.launcher.name} knows no host with GPUs; choose "
            "hardware=cpu"
        )
    return _stand_ins(config)


def _stand_ins(config: Config) -> Inventory:
    num = config.hardware.num_stand_ins
    if num < 1:
        raise SweepRefusedError(f"hardware.num_stand_ins={num}: wanted 1 or more")
    return Inventory(kind=DeviceKind.CPU_STAND_IN, gpus=(), num_devices=num)

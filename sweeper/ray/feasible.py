"""Refuses what a Ray cluster could never give, in words of our settings: a placement group that
asks for it waits for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conf.schema import Config
from scalemark.records.machine import DeviceKind
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.launchers import gpus_of_hosts
from sweeper.ray.cluster import Node


def gpus_per_host(config: Config, nodes: Sequence[Node]) -> int:
    """Return the most GPUs that each of as many hosts as are wanted has. Raises SweepRefusedError
    where launcher.agents asks for what there is none of.
    """
    counts = [node.num_gpus for node in nodes]
    if config.hardware.device_kind == DeviceKind.CPU_DEVICE:
        counts = [0] * len(nodes)
    return gpus_of_hosts(config, counts, "the Ray cluster")


def whole_host(config: Config, inventory: Inventory, nodes: Sequence[Node]) -> Mapping[str, float]:
    """Return what an agent asks Ray for: all CPUs and the GPUs of a host, so that no two agents are
    on one host, and nobody else's task is.

    Hosts that differ count as the least of the best `launcher.agents.num_hosts`. Raises
    SweepRefusedError.
    """
    num_hosts = config.launcher.agents.num_hosts
    num_gpus = inventory.num_devices if inventory.kind is DeviceKind.GPU else 0
    fitting = sorted((node.num_cpus for node in nodes if node.num_gpus >= num_gpus), reverse=True)
    num_cpus = fitting[num_hosts - 1]
    if not num_cpus and not num_gpus:
        raise SweepRefusedError(
            f"launcher.agents.num_hosts={num_hosts}: {sum(map(bool, fitting))} nodes of the Ray "
            "cluster have CPUs for tasks; ask for as many, or start nodes with `ray start "
            "--num-cpus`"
        )
    asked = {"CPU": float(num_cpus), "GPU": float(num_gpus)}
    return {name: num for name, num in asked.items() if num}

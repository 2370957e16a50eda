"""Refuses what a Ray cluster could never give, in words of our settings: a placement group that
asks for it waits for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from conf.schema import Config
from scalemark.records.devices import DeviceKind
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.ray.cluster import Node


def gpus_per_host(config: Config, nodes: Sequence[Node]) -> int:
    """The most GPUs that each of as many hosts as are wanted has.

    Raises SweepRefusedError where launcher.agents asks for what there is none of.
    """
    num_hosts, said = config.launcher.agents.num_hosts, config.launcher.agents.gpus_per_host
    if num_hosts > len(nodes):
        raise SweepRefusedError(
            f"launcher.agents.num_hosts={num_hosts}: the Ray cluster has {len(nodes)} nodes; "
            f"wanted {len(nodes)} or fewer"
        )
    if config.hardware.device_kind == DeviceKind.CPU_STAND_IN:
        return 0
    num_fit = sum(node.num_gpus >= (said or 0) for node in nodes)
    if num_fit < num_hosts:
        counts = Counter(node.num_gpus for node in nodes)
        have = ", ".join(
            f"{count} of {gpus}" for gpus, count in sorted(counts.items(), reverse=True)
        )
        raise SweepRefusedError(
            f"launcher.agents.gpus_per_host={said}: wanted on {num_hosts} nodes, and of the Ray cluster {num_fit} have so many "
            f"GPUs (nodes by their GPUs: {have}); ask for fewer GPUs or hosts"
        )
    return sorted((node.num_gpus for node in nodes), reverse=True)[max(num_hosts, 1) - 1]


def whole_host(config: Config, inventory: Inventory, nodes: Sequence[Node]) -> Mapping[str, float]:
    """What an agent asks Ray for: all CPUs and the GPUs of a host, so that no two are on one and
    nobody else's task is.

    Hosts that differ count as the least of the best `launcher.agents.num_hosts`. Raises
    SweepRefusedError.
    """
    num_hosts = config.launcher.agents.num_hosts
    num_gpus = inventory.num_devices if inventory.kind is DeviceKind.GPU else 0
    fitting = sorted((node.num_cpus for node in nodes if node.num_gpus >= num_gpus), reverse=True)
    num_cpus = fitting[num_hosts - 1]
    if not num_cpus and not num_gpus:
        raise SweepRefusedError(
            f"launcher.agents.num_hosts={num_hosts}: {sum(map(bool, fitting))} nodes of the Ray cluster have CPUs for tasks; "
            "ask for as many, or start nodes with `ray start --num-cpus`"
        )
    asked = {"CPU": float(num_cpus), "GPU": float(num_gpus)}
    return {name: num for name, num in asked.items() if num}

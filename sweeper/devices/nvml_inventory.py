"""Asks NVML for all GPUs of this machine, what they are cut into, and how they are linked.

What a driver must know (UUID, name, place) is demanded; what it may refuse to tell (topology, NUMA,
MIG, power) is left out.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pynvml

from scalemark.records.machine import Gpu, GpuLink, PcieLevel
from sweeper.devices import cores

Told = TypeVar("Told")

_PCIE_LEVELS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: PcieLevel.SAME_BOARD,
    pynvml.NVML_TOPOLOGY_SINGLE: PcieLevel.SINGLE_SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: PcieLevel.MULTIPLE_SWITCHES,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: PcieLevel.HOST_BRIDGE,
    pynvml.NVML_TOPOLOGY_NODE: PcieLevel.NUMA_NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: PcieLevel.SYSTEM,
}
_MOST_NUMA_NODES = 64  # one word of NVML's node sets


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What NVML tells of this machine."""

    gpus: tuple[Gpu, ...]  # all physical ones, in PCI order
    links: tuple[GpuLink, ...]  # between each two of them
    driver: str  # version; empty without


NOTHING = Found(gpus=(), links=(), driver="")


def find_gpus(sys: Path = cores.SYS) -> Found:
    """All physical GPUs, whatever is visible to this process; nothing where there is no NVIDIA
    driver. Raises NVMLError.
    """
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return NOTHING
    try:
        handles = [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
        found = sorted(
            ((_gpu(handle, sys), handle) for handle in handles), key=lambda pair: pair[0].pci_bus_id
        )
        return Found(
            gpus=tuple(gpu for gpu, _ in found),
            links=_links([gpu for gpu, _ in found], [handle for _, handle in found]),
            driver=pynvml.nvmlSystemGetDriverVersion(),
        )
    finally:
        pynvml.nvmlShutdown()


def _gpu(handle: object, sys: Path) -> Gpu:
    pci_bus_id = pynvml.nvmlDeviceGetPciInfo(handle).busId
    node = _numa_node(handle)
    if node is None:
        node = cores.numa_node(pci_bus_id, sys)
    gpu = Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        memory_bytes=_memory_bytes(handle),
        pci_bus_id=pci_bus_id,
        compute_capability="{}.{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
        power_limit_w=_told(lambda: float(pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)) / 1000),
        numa_node=node,
        cores=_near_cores(handle) or cores.near_cores(pci_bus_id, node, sys),
    )
    mode = _told(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0])
    if mode != pynvml.NVML_DEVICE_MIG_ENABLE:
        return gpu
    return replace(gpu, mig_mode=True, mig_devices=tuple(_mig_devices(gpu, handle)))


def _mig_devices(gpu: Gpu, handle: object) -> list[Gpu]:
    """Indices of MIG devices may have gaps."""
    count = _told(lambda: int(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0
    devices = []
    for index in range(count):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            continue
        devices.append(
            replace(
                gpu,
                uuid=pynvml.nvmlDeviceGetUUID(device),
                name=pynvml.nvmlDeviceGetName(device),
                memory_bytes=_memory_bytes(device),
                power_limit_w=None,  # the whole GPU has one
                mig_parent=gpu.uuid,
            )
        )
    return devices


def _memory_bytes(handle: object) -> int | None:
    # a GPU that shares the host's has none
    return _told(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total))


def _numa_node(handle: object) -> int | None:
    """Of the CPU that the GPU is wired to. (nvmlDeviceGetNumaNodeId is about GPUs whose own memory
    is a node: not this.)
    """
    words = _told(
        lambda: list(pynvml.nvmlDeviceGetMemoryAffinity(handle, 1, pynvml.NVML_AFFINITY_SCOPE_NODE))
    )
    nodes = _numbers(words or [])
    return nodes[0] if len(nodes) == 1 else None  # several: the driver does not know which


def _near_cores(handle: object) -> tuple[int, ...]:
    most = max(os.sysconf("SC_NPROCESSORS_CONF"), 1 + max(os.sched_getaffinity(0)))
    num_words = -(-most // 64)
    words = _told(
        lambda: list(
            pynvml.nvmlDeviceGetCpuAffinityWithinScope(
                handle, num_words, pynvml.NVML_AFFINITY_SCOPE_NODE
            )
        )
    ) or _told(lambda: list(pynvml.nvmlDeviceGetCpuAffinity(handle, num_words)))
    return _numbers(words or [])


def _numbers(words: Sequence[int]) -> tuple[int, ...]:
    """Of the bits set in words of 64."""
    return tuple(
        64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1
    )


def _links(gpus: Sequence[Gpu], handles: Sequence[object]) -> tuple[GpuLink, ...]:
    nvlinks = [_nvlinks(handle) for handle in handles]
    return tuple(
        GpuLink(
            between=(gpus[one].uuid, gpus[other].uuid),
            num_nvlinks=nvlinks[one].to(gpus[other], nvlinks[other]),
            pcie=_pcie_level(handles[one], handles[other]),
        )
        for one, other in itertools.combinations(range(len(gpus)), 2)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _NvLinks:
    """The active NVLinks of one GPU."""

    num_to_switches: int
    num_to: Counter[str]  # PCI bus id, in lower case -> links that end there

    def to(self, other: Gpu, others: _NvLinks) -> int:
        """A message over switches is as fast as the end with fewer links to them."""
        return self.num_to[other.pci_bus_id.lower()] or min(
            self.num_to_switches, others.num_to_switches
        )


def _nvlinks(handle: object) -> _NvLinks:
    ends = [_nvlink_end(handle, link) for link in range(pynvml.NVML_NVLINK_MAX_LINKS)]
    return _NvLinks(
        num_to_switches=ends.count(_SWITCH),
        num_to=Counter(end for end in ends if end not in (None, _SWITCH)),
    )


_SWITCH = "switch"


def _nvlink_end(handle: object, link: int) -> str | None:
    """PCI bus id of what an active NVLink leads to, in lower case, or `switch`; None where there is
    no such link.
    """
    if _told(lambda: pynvml.nvmlDeviceGetNvLinkState(handle, link)) != pynvml.NVML_FEATURE_ENABLED:
        return None
    kind = _told(lambda: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return _SWITCH
    return _told(lambda: str(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId).lower())


def _pcie_level(one: object, other: object) -> PcieLevel | None:
    level = _told(lambda: int(pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other)))
    return None if level is None else _PCIE_LEVELS.get(level)


def _told(ask: Callable[[], Told]) -> Told | None:
    """None where this driver, GPU or container refuses to tell."""
    try:
        return ask()
    except pynvml.NVMLError:
        return None

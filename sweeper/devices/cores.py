"""What the kernel tells of CPU cores: which of them this process may use, and which are near a PCI
device.
"""

from __future__ import annotations

import os
from pathlib import Path

SYS = Path("/sys")


def allowed_cores(sys: Path = SYS) -> tuple[int, ...]:
    """The cores this process may run on; hardware threads of one physical core stand side by side.

    A run of neighbors in it shares as few physical cores with the rest as can be.
    """

    def physical(core: int) -> tuple[int, int]:
        siblings = read_list(sys / f"devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        return min(siblings, default=core), core

    return tuple(sorted(os.sched_getaffinity(0), key=physical))


def numa_node(pci_bus_id: str, sys: Path = SYS) -> int | None:
    """Of a PCI device, as the kernel knows it; None where it does not."""
    text = _read(_device(pci_bus_id, sys) / "numa_node")
    return int(text) if text.isdecimal() else None  # -1: the firmware did not say


def near_cores(pci_bus_id: str, node: int | None, sys: Path = SYS) -> tuple[int, ...]:
    """Of a PCI device: those of its NUMA node where that is known, else those the kernel names for
    the device.
    """
    of_node = read_list(sys / f"devices/system/node/node{node}/cpulist") if node is not None else ()
    return of_node or read_list(_device(pci_bus_id, sys) / "local_cpulist")


def read_list(path: Path) -> tuple[int, ...]:
    """A list as the kernel writes it, as `0-3,8`; empty where there is no such file."""
    cores: list[int] = []
    for part in filter(None, _read(path).split(",")):
        first, _, last = part.partition("-")
        cores.extend(range(int(first), int(last or first) + 1))
    return tuple(cores)


def _device(pci_bus_id: str, sys: Path) -> Path:
    """NVML writes the domain with eight digits, the kernel with four."""
    domain, _, place = pci_bus_id.lower().partition(":")
    return sys / f"bus/pci/devices/{domain[-4:]}:{place}"


def _read(path: Path) -> str:
    """What a file of the kernel says; nothing where this kernel, container or machine has no such
    file.
    """
    try:
        return path.read_text().strip()
    except OSError:
        return ""

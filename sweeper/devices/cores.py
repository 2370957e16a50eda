"""Asks the kernel which CPU cores this process may use, and which are near a PCI device."""

from __future__ import annotations

import os
from pathlib import Path

SYS = Path("/sys")


def allowed_cores(sys: Path = SYS) -> tuple[int, ...]:
    """Return the cores this process may run on, hardware threads of one physical core side by side.

    A run of neighbors in it shares as few physical cores with the rest as possible.
    """

    def physical(core: int) -> tuple[int, int]:
        siblings = read_list(sys / f"devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        return min(siblings, default=core), core

    return tuple(sorted(os.sched_getaffinity(0), key=physical))


def numa_node(pci_bus_id: str, sys: Path = SYS) -> int | None:
    """Return the NUMA node of a PCI device; None where the kernel does not know it."""
    text = _read(_device(pci_bus_id, sys) / "numa_node")
    return int(text) if text.isdecimal() else None  # -1: the firmware did not say


def near_cores(pci_bus_id: str, node: int | None, sys: Path = SYS) -> tuple[int, ...]:
    """Return the cores of a device's NUMA node, else those that the kernel names for the device."""
    if node is not None:
        of_node = read_list(sys / f"devices/system/node/node{node}/cpulist")
        if of_node:
            return of_node
    return read_list(_device(pci_bus_id, sys) / "local_cpulist")


def read_list(path: Path) -> tuple[int, ...]:
    """Return a list that the kernel writes as `0-3,8`; empty where there is no such file."""
    cores: list[int] = []
    text = _read(path)
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        cores.extend(range(int(first), int(last or first) + 1))
    return tuple(cores)


def _device(pci_bus_id: str, sys: Path) -> Path:
    """Return the folder of a PCI device: NVML writes 8 digits of its domain, the kernel 4."""
    domain, _, address = pci_bus_id.lower().partition(":")
    return sys / f"bus/pci/devices/{domain[-4:]}:{address}"


def _read(path: Path) -> str:
    """Return the text of a kernel file; empty where this machine or container has none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""

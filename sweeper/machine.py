"""Describes this machine, and finds the devices a trial may use: GPUs by NVML, or CPU stand-ins."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pynvml

from conf.schema import HardwareConfig
from store.records import DeviceKind, Gpu, Machine
from sweeper.errors import SweepRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The devices of one kind that trials may use."""

    kind: DeviceKind
    gpus: tuple[Gpu, ...]  # usable ones, in PCI order; empty for stand-ins
    num_devices: int

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """The least of the usable GPUs; None for stand-ins."""
        return min((_version(gpu.compute_capability) for gpu in self.gpus), default=None)

    def visible_devices(self, num_gpus: int) -> str:
        """CUDA_VISIBLE_DEVICES for a trial: UUIDs of the first GPUs; empty, which hides all GPUs, for stand-ins."""
        return ",".join(gpu.uuid for gpu in self.gpus[:num_gpus])


def describe_machine(hardware: HardwareConfig) -> Machine:
    """What NVML, /proc and psutil say of this machine, whatever is visible to this process.

    Raises SweepRefusedError when NVML fails, unless only CPU stand-ins are wanted.
    """
    try:
        gpus, driver = nvml_gpus()
    except pynvml.NVMLError as error:
        if hardware.device_kind != DeviceKind.CPU_STAND_IN:
            raise SweepRefusedError(f"NVML: {error}; mend the NVIDIA driver, or choose hardware=cpu for CPU stand-ins") from error
        gpus, driver = (), ""
    return Machine(
        host=platform.node(),
        cpu=_cpu_model(),
        num_cores=psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus,
        driver=driver,
    )


def take_inventory(machine: Machine, hardware: HardwareConfig, variables: Mapping[str, str] = os.environ) -> Inventory:
    """The devices trials may use. An inherited CUDA_VISIBLE_DEVICES is never widened.

    Raises SweepRefusedError when GPUs are asked for and there are none.
    """
    mask = variables.get("CUDA_VISIBLE_DEVICES")
    usable = visible_gpus(machine.gpus, mask)
    if hardware.num_stand_ins < 1:
        raise SweepRefusedError(f"hardware.num_stand_ins={hardware.num_stand_ins}: wanted 1 or more")
    wanted = hardware.device_kind
    if wanted not in ("auto", "gpu", "cpu_stand_in"):
        raise SweepRefusedError(f"hardware.device_kind={wanted}: wanted auto, gpu or cpu_stand_in")
    if wanted == "gpu" and not usable:
        found = f"NVML finds {len(machine.gpus)}, CUDA_VISIBLE_DEVICES leaves none" if machine.gpus else "NVML finds none"
        raise SweepRefusedError(f"hardware=gpu: no usable GPU ({found}); choose hardware=cpu for CPU stand-ins")
    if wanted == "auto" and machine.gpus and not usable and mask not in _HIDE_ALL:
        raise SweepRefusedError(
            f"CUDA_VISIBLE_DEVICES={mask}: names no whole GPU that NVML finds; mend it, or choose hardware=cpu"
        )
    if usable and wanted != "cpu_stand_in":
        return Inventory(kind=DeviceKind.GPU, gpus=usable, num_devices=len(usable))
    return Inventory(kind=DeviceKind.CPU_STAND_IN, gpus=(), num_devices=hardware.num_stand_ins)


_HIDE_ALL = ("", "-1", "NoDevFiles")  # masks that are meant to leave nothing


def visible_gpus(gpus: tuple[Gpu, ...], mask: str | None) -> tuple[Gpu, ...]:
    """Those a CUDA program would see under this CUDA_VISIBLE_DEVICES, in the mask's order.

    As CUDA reads it: indices in PCI order, or UUIDs or their beginnings; the first entry that names no GPU ends the list.
    """
    if mask is None:
        return gpus
    visible: list[Gpu] = []
    for entry in (part.strip() for part in mask.split(",")):
        if entry.isdecimal():
            named = gpus[int(entry) : int(entry) + 1]
        else:
            named = tuple(gpu for gpu in gpus if entry and gpu.uuid.startswith(entry))
        if len(named) != 1 or named[0] in visible:
            break
        visible.extend(named)
    return tuple(visible)


def nvml_gpus() -> tuple[tuple[Gpu, ...], str]:
    """All physical GPUs in PCI order, and the driver's version; nothing where there is no NVIDIA driver. Raises NVMLError."""
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return (), ""
    try:
        gpus = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            gpus.append(
                Gpu(
                    uuid=pynvml.nvmlDeviceGetUUID(handle),
                    name=pynvml.nvmlDeviceGetName(handle),
                    memory_bytes=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
                    pci_bus_id=pynvml.nvmlDeviceGetPciInfo(handle).busId,
                    compute_capability="{}.{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
                    power_limit_w=_power_limit_w(handle),
                )
            )
        return tuple(sorted(gpus, key=lambda gpu: gpu.pci_bus_id)), pynvml.nvmlSystemGetDriverVersion()
    finally:
        pynvml.nvmlShutdown()


def _version(text: str) -> tuple[int, int]:
    major, minor = map(int, text.split("."))
    return major, minor


def _power_limit_w(handle: object) -> float | None:
    try:
        return float(pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)) / 1000
    except pynvml.NVMLError_NotSupported:
        return None


def _cpu_model() -> str:
    """As /proc/cpuinfo names it; elsewhere what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

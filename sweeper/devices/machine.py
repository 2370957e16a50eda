"""Describes this machine, and finds the devices a trial may use: GPUs by NVML, or CPU stand-ins."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pynvml

from conf.schema import HardwareConfig
from costs.hardware import Hardware
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Gpu, GpuLink, Machine
from sweeper.devices.gpu_mask import HIDE_ALL, visible_gpus
from sweeper.devices.nvml_inventory import NOTHING, find_gpus
from sweeper.errors import SweepRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The devices of one kind that trials may use."""

    kind: DeviceKind
    # usable ones, in the mask's order, else in PCI order; empty for stand-ins
    gpus: tuple[Gpu, ...]
    num_devices: int
    # all that sweeps of this machine may use, in PCI order, whatever the mask hides
    machine_gpus: tuple[Gpu, ...] = ()
    links: tuple[GpuLink, ...] = ()  # between each two of the usable GPUs; none between MIG devices
    hardware: Hardware | None = None  # of simulated devices; none of those that exist
    # that have as many devices each; none = this machine, whose processes stand for hosts
    num_hosts: int | None = None
    more_hosts: str = ""  # what to do for trials over more hosts than these

    @property
    def is_per_host(self) -> bool:
        """The devices are those of each host; else of a trial over several hosts, too, all must
        find room among them.
        """
        return self.num_hosts is not None

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """The least of the usable GPUs; None for stand-ins."""
        return min((_version(gpu.compute_capability) for gpu in self.gpus), default=None)

    @property
    def is_mig(self) -> bool:
        """The devices are MIG devices: slices of GPUs."""
        return any(gpu.mig_parent for gpu in self.gpus)

    @property
    def most_gpus_per_trial(self) -> int:
        """The largest trial that can ever fit: CUDA shows a process only one MIG device."""
        return 1 if self.is_mig else self.num_devices

    def uuids(self, devices: Sequence[int]) -> tuple[str, ...]:
        """Of the devices of these numbers, the same for all sweeps of this machine; of stand-ins
        names that serve as such.
        """
        return tuple(
            self.gpus[device].uuid if self.gpus else f"stand-in-{device}" for device in devices
        )


def describe_machine(hardware: HardwareConfig) -> Machine:
    """What NVML, /proc and psutil say of this machine, whatever is visible to this process.

    Raises SweepRefusedError when NVML fails, unless only CPU stand-ins are wanted.
    """
    try:
        found = find_gpus()
    except pynvml.NVMLError as error:
        if hardware.device_kind != DeviceKind.CPU_STAND_IN:
            raise SweepRefusedError(
                f"NVML: {error}; mend the NVIDIA driver, or choose hardware=cpu for CPU stand-ins"
            ) from error
        found = NOTHING
    return Machine(
        host=platform.node(),
        cpu=_cpu_model(),
        num_cores=psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        gpus=found.gpus,
        driver=found.driver,
        links=found.links,
    )


def take_inventory(
    machine: Machine, hardware: HardwareConfig, variables: Mapping[str, str] = os.environ
) -> Inventory:
    """The devices trials may use. An inherited CUDA_VISIBLE_DEVICES is never widened.

    Raises SweepRefusedError when GPUs are asked for and there are none.
    """
    wanted = hardware.device_kind
    if hardware.profile is not None:
        raise SweepRefusedError(
            f"hardware={hardware.profile.name}: a profile is not a machine; add engine=simulated, "
            "or choose hardware=auto, gpu or cpu to measure on this one"
        )
    if hardware.num_stand_ins < 1:
        raise SweepRefusedError(
            f"hardware.num_stand_ins={hardware.num_stand_ins}: wanted 1 or more"
        )
    if wanted not in ("auto", "gpu", "cpu_stand_in"):
        raise SweepRefusedError(f"hardware.device_kind={wanted}: wanted auto, gpu or cpu_stand_in")
    stand_ins = Inventory(kind=DeviceKind.CPU_STAND_IN, gpus=(), num_devices=hardware.num_stand_ins)
    if wanted == "cpu_stand_in":
        return stand_ins
    mask = variables.get("CUDA_VISIBLE_DEVICES")
    usable = visible_gpus(machine.gpus, variables)
    if usable:
        return _of_gpus(usable, machine)
    if wanted == "gpu":
        raise SweepRefusedError(
            f"hardware=gpu: no usable GPU ({_why_none(machine, mask)}); choose hardware=cpu "
            "for CPU stand-ins"
        )
    if mask not in (None, *HIDE_ALL) and machine.gpus:
        raise SweepRefusedError(
            f"CUDA_VISIBLE_DEVICES={mask}: names no GPU that NVML finds, or one twice; mend "
            "it, or choose hardware=cpu"
        )
    if mask is None and machine.gpus:
        raise SweepRefusedError(f"no usable GPU ({_why_none(machine, mask)}); {_STAND_INS}")
    return stand_ins


_STAND_INS = "choose hardware=cpu for CPU stand-ins"


def _of_gpus(usable: tuple[Gpu, ...], machine: Machine) -> Inventory:
    uuids = {gpu.uuid for gpu in usable}
    links = tuple(link for link in machine.links if uuids.issuperset(link.between))
    all_gpus = tuple(
        device for gpu in machine.gpus for device in (gpu.mig_devices if gpu.mig_mode else (gpu,))
    )
    return Inventory(
        kind=DeviceKind.GPU,
        gpus=usable,
        num_devices=len(usable),
        machine_gpus=all_gpus,
        links=links,
    )


def _why_none(machine: Machine, mask: str | None) -> str:
    if not machine.gpus:
        return "NVML finds none"
    if mask is None:
        return "all are in MIG mode and have no MIG devices; make some with nvidia-smi mig"
    return f"NVML finds {len(machine.gpus)}, CUDA_VISIBLE_DEVICES leaves none"


def _version(text: str) -> tuple[int, int]:
    major, minor = map(int, text.split("."))
    return major, minor


def _cpu_model() -> str:
    """As /proc/cpuinfo names it; elsewhere what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

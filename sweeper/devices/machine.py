"""Describes this machine, or one that a hardware profile simulates, and finds the devices a trial
may use: GPUs by NVML, CPU devices, or simulated GPUs.
"""

import hashlib
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import psutil
import pynvml

from conf.schema import HardwareConfig
from scalemark.host import gpu_libraries, processes
from scalemark.host.gpu_libraries import Libraries
from scalemark.records.machine import DeviceKind, Gpu, Machine
from scalemark.records.trial import TrialSpec
from simulator.costs.box import Hardware, overrides_of, profiles
from simulator.costs.step import costs
from sweeper import SweepRefusedError
from sweeper.devices.nvml import NOTHING, ProhibitedError, find_gpus

MOST_CPU_DEVICES = 1024
HIDE_ALL = ("", "-1", "NoDevFiles")  # values of CUDA_VISIBLE_DEVICES that leave nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The devices of one kind that trials may use."""

    kind: DeviceKind
    # usable ones, in the mask's order, else in PCI order; empty for CPU devices
    gpus: tuple[Gpu, ...]
    num_devices: int
    # all that sweeps of this machine may use, in PCI order, whatever the mask hides
    machine_gpus: tuple[Gpu, ...] = ()
    libraries: Libraries = field(default_factory=Libraries)  # that are here for usable GPUs
    hardware: Hardware | None = None  # of simulated devices; none of those that exist
    # hosts with as many devices each; None = this machine, whose processes play the hosts
    num_hosts: int | None = None
    more_hosts: str = ""  # what to do for trials over more hosts than these

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """The least of the usable GPUs; None for CPU devices."""
        capabilities = [gpu_libraries.version(gpu.compute_capability) for gpu in self.gpus]
        return min(capabilities, default=None)

    @property
    def memory_bytes(self) -> int | None:
        """The least of the usable GPUs; None for CPU devices, and where one has none of its own."""
        sizes = [gpu.memory_bytes or 0 for gpu in self.gpus]
        return min(sizes, default=0) or None

    @property
    def is_mig(self) -> bool:
        """Return whether the devices are MIG devices: slices of GPUs."""
        return any(gpu.mig_parent for gpu in self.gpus)

    @property
    def most_gpus_per_trial(self) -> int:
        """The largest trial that can ever fit: CUDA shows a process only one MIG device."""
        if self.is_mig:
            return 1
        return self.num_devices

    @property
    def gpu_uuids(self) -> tuple[str, ...]:
        """Return those of the GPUs of this host; nobody else can use other devices."""
        if self.kind is not DeviceKind.GPU or self.num_hosts:
            return ()
        return tuple(gpu.uuid for gpu in self.gpus)

    def uuids(self, devices: Sequence[int]) -> tuple[str, ...]:
        """Return names of these devices that are the same for all sweeps of this machine."""
        if not self.gpus or self.num_hosts:
            return tuple(f"cpu-device-{device}" for device in devices)
        return tuple(self.gpus[device].uuid for device in devices)


def cpu_devices(hardware: HardwareConfig) -> Inventory:
    """Return as many logical CPU devices as the settings want. Raises SweepRefusedError."""
    num = hardware.num_cpu_devices
    if num < 1:
        raise SweepRefusedError(f"hardware.num_cpu_devices={num}: wanted 1 or more")
    if num > MOST_CPU_DEVICES:
        raise SweepRefusedError(
            f"hardware.num_cpu_devices={num}: wanted {MOST_CPU_DEVICES:,} or fewer; they are "
            "parts of one machine's cores; plan for more GPUs with engine=simulated"
        )
    return Inventory(kind=DeviceKind.CPU_DEVICE, gpus=(), num_devices=num)


def describe_machine(hardware: HardwareConfig) -> Machine:
    """Describe this machine by NVML, /proc and psutil, whatever is visible to this process, and
    name GPUs that do not answer.

    Raises SweepRefusedError when NVML fails, unless only CPU devices are wanted.
    """
    try:
        answer = find_gpus()
    except pynvml.NVMLError as error:
        if hardware.device_kind != DeviceKind.CPU_DEVICE:
            remedy = "mend the NVIDIA driver"
            if isinstance(error, pynvml.NVMLError_LibraryNotFound):
                remedy = (
                    "without libnvidia-ml.so.1 TensorFlow finds no GPU either: install it, or give "
                    "the container NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                )
            elif isinstance(error, ProhibitedError):
                remedy = "run that as root"
            raise SweepRefusedError(
                f"NVML: {error}; {remedy}, or choose hardware=cpu for CPU devices"
            ) from error
        answer = NOTHING
    if answer.left_out and hardware.device_kind != DeviceKind.CPU_DEVICE:
        print(
            f"left out: {', '.join(answer.left_out)}; in CUDA_VISIBLE_DEVICES name the others by "
            "UUID, as nvidia-smi -L lists them, for their numbers may have changed",
            file=sys.stderr,
        )
    return Machine(
        host=_name_of_box(answer.gpus),
        cpu=_cpu_model(),
        num_cores=psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        gpus=answer.gpus,
        driver=answer.driver,
        links=answer.links,
    )


_MADE_BY_DOCKER = re.compile(r"[0-9a-f]{12}")  # the beginning of a container's id


def _name_of_box(gpus: Sequence[Gpu]) -> str:
    """Return the name of this host. Each container and pod gets a new one where nobody chose it:
    there its GPUs tell the box, else its boot.
    """
    name = platform.node()
    if not _MADE_BY_DOCKER.fullmatch(name) and "KUBERNETES_SERVICE_HOST" not in os.environ:
        return name
    told_by = sorted(gpu.uuid for gpu in gpus) or [processes.this_process().boot_id]
    return f"box-{hashlib.sha256(' '.join(told_by).encode()).hexdigest()[:8]}"


def take_inventory(
    machine: Machine, hardware: HardwareConfig, variables: Mapping[str, str] = os.environ
) -> Inventory:
    """Return the devices trials may use. An inherited CUDA_VISIBLE_DEVICES is never widened.

    Raises SweepRefusedError when GPUs are asked for and there are none.
    """
    wanted = hardware.device_kind
    if wanted not in ("auto", DeviceKind.GPU, DeviceKind.CPU_DEVICE):
        raise SweepRefusedError(f"hardware.device_kind={wanted}: wanted auto, gpu or cpu_device")
    on_cpu = cpu_devices(hardware)
    if wanted == DeviceKind.CPU_DEVICE:
        return on_cpu
    usable = visible_gpus(machine.gpus, variables)
    if usable:
        cut = [gpu.uuid for gpu in machine.gpus if gpu.mig_mode]
        if cut and not usable[0].mig_parent and "CUDA_VISIBLE_DEVICES" not in variables:
            print(f"left out: {', '.join(cut)}, in MIG mode beside whole GPUs", file=sys.stderr)
        return _inventory_of_gpus(usable, machine)
    mask = variables.get("CUDA_VISIBLE_DEVICES")
    # a mask that hides all GPUs on purpose asks for CPU devices, any other lack of GPUs is a slip
    if wanted == "auto" and (mask in HIDE_ALL or not machine.gpus):
        return on_cpu
    raise SweepRefusedError(
        f"hardware={wanted}: no usable GPU ({_why_none(machine, mask)}); choose hardware=cpu "
        "for CPU devices"
    )


def visible_gpus(gpus: tuple[Gpu, ...], variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return what trials may use, in the mask's order.

    Without a mask these are the whole GPUs, and the MIG devices where none is whole. As in CUDA, a
    mask lists indices, UUIDs, or beginnings of UUIDs; its first entry that names nothing, or is of
    another kind than the first one, ends the list, and one named twice leaves nothing.

    Raises SweepRefusedError where it is open which GPUs are meant, or where one of them is cut into
    MIG devices.
    """
    mask = variables.get("CUDA_VISIBLE_DEVICES")
    if mask is None:
        return tuple(gpu for gpu in gpus if not gpu.mig_mode) or _mig_devices(gpus)
    entries = [entry.strip() for entry in mask.split(",")]
    is_in_pci_order = variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if entries[0].isdecimal() and len({gpu.name for gpu in gpus}) > 1 and not is_in_pci_order:
        raise SweepRefusedError(
            f"CUDA_VISIBLE_DEVICES={mask}: CUDA counts GPUs of several kinds from the fastest on; "
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID, as nvidia-smi -L lists them"
        )
    visible: list[Gpu] = []
    for entry in entries:
        if _kind(entry) != _kind(entries[0]):
            break
        named = _named(entry, gpus)
        if named is None:
            break
        if named in visible:
            return ()
        if named.mig_mode and named.mig_parent is None:
            raise SweepRefusedError(
                f"CUDA_VISIBLE_DEVICES={mask}: {named.uuid} is in MIG mode and cannot be used "
                "whole; name its MIG devices by UUID, as nvidia-smi -L lists them"
            )
        visible.append(named)
    return tuple(visible)


def _mig_devices(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    return tuple(device for gpu in gpus for device in gpu.mig_devices)


def _kind(entry: str) -> str:
    if entry.isdecimal():
        return "index"
    return entry[:4]


def _named(entry: str, gpus: tuple[Gpu, ...]) -> Gpu | None:
    named: Sequence[Gpu] = ()
    if entry.isdecimal():
        named = gpus[int(entry) : int(entry) + 1]
    elif entry.startswith(("GPU-", "MIG-")):
        devices = (*gpus, *_mig_devices(gpus))
        named = [device for device in devices if device.uuid.startswith(entry)]
    if len(named) != 1:
        return None
    return named[0]


def _inventory_of_gpus(usable: tuple[Gpu, ...], machine: Machine) -> Inventory:
    all_devices: list[Gpu] = []
    for gpu in machine.gpus:
        if gpu.mig_mode:
            all_devices.extend(gpu.mig_devices)
        else:
            all_devices.append(gpu)
    return Inventory(
        kind=DeviceKind.GPU,
        gpus=usable,
        num_devices=len(usable),
        machine_gpus=tuple(all_devices),
        libraries=gpu_libraries.installed(),
    )


def _why_none(machine: Machine, mask: str | None) -> str:
    if not machine.gpus:
        return "NVML finds none"
    if mask is None:
        return "all are in MIG mode and have no MIG devices; make some with nvidia-smi mig"
    return (
        f"NVML finds {len(machine.gpus)}, and CUDA_VISIBLE_DEVICES={mask} names none of them, or "
        "one twice"
    )


def _cpu_model() -> str:
    """Return the model that /proc/cpuinfo names; elsewhere what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def hardware_of(config: HardwareConfig) -> Hardware:
    """Return the chosen profile, changed by the command line. Raises SweepRefusedError."""
    if config.profile is None:
        chosen = config.device_kind.removesuffix("_device")  # as files of conf/hardware/ are named
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
        hardware_profile=hardware.to_json(),
    )


def inventory_of(machine: Machine) -> Inventory:
    """Return all of its GPUs; CUDA_VISIBLE_DEVICES is about those of this machine."""
    return Inventory(
        hardware=Hardware.from_json(machine.hardware_profile),
        kind=DeviceKind.SIMULATED_GPU,
        gpus=machine.gpus,
        num_devices=len(machine.gpus),
    )


def simulation_problem(spec: TrialSpec, hardware: Hardware) -> str | None:
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

"""The machine that an attempt ran on: its devices, links, errors, and probed peaks."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from scalemark.records.measurement import GpuTelemetry
from scalemark.records.validation import JsonRecord
from scalemark.text.wording import counted


class DeviceKind(StrEnum):
    """The device of a replica: a physical GPU, a logical CPU device, or a cost model of a GPU."""

    plural: str
    singular: str
    meaning: str  # what numbers of such devices are, as docs/numbers.md has it; empty for GPUs

    def __new__(cls, value: str, plural: str = "", meaning: str = "") -> DeviceKind:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.plural, kind.singular, kind.meaning = plural, plural.removesuffix("s"), meaning
        return kind

    GPU = "gpu", "GPUs", ""
    CPU_DEVICE = (
        "cpu_device",
        "CPU devices",
        "not comparable with GPU results",
    )
    SIMULATED_GPU = (
        "simulated_gpu",
        "simulated GPUs",
        "computed by a cost model; no GPU was measured",
    )

    @property
    def note(self) -> str:
        """Return what stands wherever a number of such devices is shown; empty for GPUs."""
        if self.meaning:
            return f"{self.plural}: {self.meaning}"
        return ""

    def counted(self, number: int) -> str:
        """Return a count, as `1 GPU` or `4 GPUs`."""
        return f"{number} {self.singular if number == 1 else self.plural}"


_VERSION = re.compile(r"[0-9]+\.[0-9]+")


class PcieLevel(StrEnum):
    """The part that a message between two GPUs crosses without NVLink, nearest first."""

    SAME_BOARD = "same_board"
    SINGLE_SWITCH = "single_switch"
    MULTIPLE_SWITCHES = "multiple_switches"
    HOST_BRIDGE = "host_bridge"
    NUMA_NODE = "numa_node"  # several host bridges of one CPU
    SYSTEM = "system"  # the link between CPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLink:
    """The links between two GPUs."""

    between: tuple[str, str]  # their UUIDs, in PCI order
    num_nvlinks: int = 0  # active ones from one to the other, or the fewer of both to NVSwitches
    pcie: str | None = None  # a PcieLevel; None where the driver does not know


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A physical GPU, as NVML reports it, or a MIG device."""

    uuid: str  # what CUDA_VISIBLE_DEVICES takes
    name: str  # of a MIG device with its profile, as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    memory_bytes: int | None  # None where it has no memory of its own
    pci_bus_id: str
    compute_capability: str  # as "8.0"; 7.0 has tensor cores, 8.0 bfloat16 and TensorFloat-32
    power_limit_w: float | None  # None where the GPU does not report it
    # of the CPU it is wired to; None where neither driver nor kernel report it
    numa_node: int | None = None
    cores: tuple[int, ...] = ()  # CPU cores near it; empty where nothing reports them
    mig_parent: str | None = None  # of a MIG device: UUID of the GPU it is cut from
    mig_mode: bool = False  # it is cut up: not usable whole
    mig_devices: tuple[Gpu, ...] = ()  # what it is cut into

    def __post_init__(self) -> None:
        """Raise ValueError for a compute capability that is no version."""
        if not _VERSION.fullmatch(self.compute_capability):
            raise ValueError(
                f"compute_capability={self.compute_capability!r}: wanted a version, as '8.0'"
            )

    @property
    def identity(self) -> dict[str, object]:
        """Return what makes it another GPU for numbers; where it sits does not."""
        names = ("uuid", "name", "memory_bytes", "pci_bus_id", "compute_capability")
        identity: dict[str, object] = {name: getattr(self, name) for name in names}
        limit_w = self.power_limit_w  # 400 in a file is 400.0 in a column
        identity["power_limit_w"] = None if limit_w is None else float(limit_w)
        if self.mig_mode:
            identity["mig_devices"] = [device.identity for device in self.mig_devices]
        return identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(JsonRecord):
    """The machine of a number, which never travels without it."""

    host: str
    cpu: str
    num_cores: int
    memory_bytes: int
    gpus: tuple[Gpu, ...]  # all physical GPUs, in PCI order
    driver: str  # of the GPUs; empty without
    links: tuple[GpuLink, ...] = ()  # between each two of them
    # of simulated hardware: canonical JSON of simulator.costs.box.Hardware; empty of a machine that
    # exists
    hardware_profile: str = ""
    # several equal hosts that share sweeps count as one machine of this name; empty: it stands for
    # itself alone
    pool: str = ""

    @property
    def key(self) -> str:
        """Return a digest of what numbers depend on, memory in GiB.

        Another driver or GPU makes another machine; links and near cores do not. Of a pool it is
        what its hosts have in common: a host with other GPUs or cores is another machine.
        """
        gpus = [gpu.identity for gpu in self.gpus]
        values: dict[str, object] = {
            "cpu": self.cpu,
            "num_cores": self.num_cores,
            "memory_bytes": round(self.memory_bytes / 2**30),
            "driver": self.driver,
            "gpus": gpus,
        }
        if self.pool:
            for gpu in gpus:
                del gpu["uuid"], gpu["pci_bus_id"]
            values["pool"] = self.pool
        else:
            values["host"] = self.host
            if self.hardware_profile:
                values["hardware_profile"] = self.hardware_profile
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_kind_of_machine(device_kind: str, machine: Machine) -> None:
    """Raises ValueError for a simulated trial on a real machine, and the other way round."""
    is_profile = bool(machine.hardware_profile)
    if (device_kind == DeviceKind.SIMULATED_GPU) != is_profile:
        what = "a machine that exists"
        if is_profile:
            what = "a hardware profile"
        raise ValueError(
            f"device_kind={device_kind} on {what} ({machine.host}): simulated numbers are kept "
            "apart from measurements; wanted both or none"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class XidError(JsonRecord):
    """An error that the driver reports by its number: a line of `gpu_errors.jsonl`.

    Each number is written once per GPU. NVIDIA says what each means.
    """

    time_s: float  # time.monotonic(), as of the samples of telemetry
    uuid: str  # of the GPU, or of the MIG device; empty where the driver could not tell
    xid: int

    def __str__(self) -> str:
        gpu = self.uuid or "a GPU"
        return f"{gpu} reported Xid {self.xid} (see docs.nvidia.com/deploy/xid-errors)"


def said_of_errors(gpu: GpuTelemetry) -> Iterator[str]:
    """Yield the reasons to doubt a measurement whose GPU had errors."""
    for xid in gpu.xids:
        yield str(XidError(time_s=0.0, uuid=gpu.uuid, xid=xid))
    if gpu.num_uncorrected_errors:
        errors = counted(gpu.num_uncorrected_errors, "memory error")
        yield f"{gpu.uuid} had {errors} that ECC could not correct"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest(JsonRecord):
    """A request to the measuring process."""

    device_kind: str  # gpu or cpu_device
    num_devices: int
    precisions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedPeak(JsonRecord):
    """The fastest matrix product of one device, or why it could not be measured."""

    precision: str
    device: int  # its number among the probed ones
    value: float | None  # FLOP/s; None with a problem
    problem: str = ""

    def __post_init__(self) -> None:
        if self.value is None and not self.problem:
            raise ValueError(f"{self.precision}: wanted a value or a problem, found neither")
        if self.value is not None and not 0 < self.value < math.inf:
            raise ValueError(f"{self.precision}: value={self.value}: wanted more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(JsonRecord):
    """All that one probe found."""

    machine: str  # Machine.key
    host: str
    device_kind: str  # gpu or cpu_device
    devices: tuple[str, ...]  # name of each, as NVML has it; one CPU device stands for all
    measured_at: str  # UTC
    peaks: tuple[ProbedPeak, ...]
    doubts: tuple[str, ...] = ()  # why the peaks may be too low

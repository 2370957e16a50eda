"""The machine that an attempt ran on: its GPUs and how they are linked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from scalemark.records.devices import DeviceKind
from scalemark.records.validation import (
    build,
    parsed,
)


class PcieLevel(StrEnum):
    """What a message between two GPUs has to cross without NVLink, from the nearest to the
    farthest.
    """

    SAME_BOARD = "same_board"
    SINGLE_SWITCH = "single_switch"
    MULTIPLE_SWITCHES = "multiple_switches"
    HOST_BRIDGE = "host_bridge"
    NUMA_NODE = "numa_node"  # several host bridges of one CPU
    SYSTEM = "system"  # the link between CPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLink:
    """How two GPUs reach each other."""

    between: tuple[str, str]  # their UUIDs, in PCI order
    num_nvlinks: int = 0  # active ones from one to the other, or the fewer of both to NVSwitches
    pcie: str | None = None  # a PcieLevel; none where the driver does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One physical GPU, as NVML knows it, or a MIG device cut from one."""

    uuid: str  # what CUDA_VISIBLE_DEVICES takes
    name: str  # of a MIG device with its profile, as "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    memory_bytes: int | None  # none where it has no memory of its own to tell of
    pci_bus_id: str
    compute_capability: str  # as "8.0"; 7.0 has tensor cores, 8.0 bfloat16 and TensorFloat-32
    power_limit_w: float | None  # none where the GPU does not tell
    # of the CPU it is wired to; none where neither driver nor kernel tell
    numa_node: int | None = None
    cores: tuple[int, ...] = ()  # CPU cores near it; empty where neither driver nor kernel tell
    mig_parent: str | None = None  # of a MIG device: UUID of the GPU it is cut from
    mig_mode: bool = False  # it is cut up: not usable whole
    mig_devices: tuple[Gpu, ...] = ()  # what it is cut into

    @property
    def identity(self) -> dict[str, object]:
        """What makes it another GPU for numbers: not where it sits, but how it is cut up."""
        told: dict[str, object] = {name: getattr(self, name) for name in _GPU_IDENTITY}
        if self.power_limit_w is not None:
            told["power_limit_w"] = float(self.power_limit_w)  # 400 in a file is 400.0 in a column
        return (
            told | {"mig_devices": [device.identity for device in self.mig_devices]}
            if self.mig_mode
            else told
        )


_GPU_IDENTITY = (
    "uuid",
    "name",
    "memory_bytes",
    "pci_bus_id",
    "compute_capability",
    "power_limit_w",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What numbers are made on. A number never travels without it."""

    host: str
    cpu: str
    num_cores: int
    memory_bytes: int
    gpus: tuple[Gpu, ...]  # all physical GPUs, in PCI order
    driver: str  # of the GPUs; empty without
    links: tuple[GpuLink, ...] = ()  # between each two of them
    # of simulated hardware: canonical JSON of costs.hardware.Hardware; empty of a machine that
    # exists
    hardware_profile: str = ""
    # several equal hosts that share sweeps count as one machine of this name; empty: it stands for
    # itself alone
    pool: str = ""

    @property
    def key(self) -> str:
        """Digest of what numbers depend on, memory in GiB: another driver or another GPU makes
        another machine.

        What was learned to be told later (links, near cores) is left out, so that numbers stored
        before stay comparable. Of a pool it is what its hosts have in common that tells: a host
        with other GPUs or cores is another machine.
        """
        if self.pool:
            own = ("uuid", "pci_bus_id")
            gpus = [
                {name: value for name, value in gpu.identity.items() if name not in own}
                for gpu in self.gpus
            ]
            told = {
                "pool": self.pool,
                "cpu": self.cpu,
                "num_cores": self.num_cores,
                "driver": self.driver,
                "gpus": gpus,
            }
            return _digest(told | {"memory_bytes": round(self.memory_bytes / 2**30)})
        told = {
            "host": self.host,
            "cpu": self.cpu,
            "num_cores": self.num_cores,
            "memory_bytes": round(self.memory_bytes / 2**30),
            "gpus": [gpu.identity for gpu in self.gpus],
            "driver": self.driver,
        } | ({"hardware_profile": self.hardware_profile} if self.hardware_profile else {})
        return _digest(told)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Machine:
        """Raises ValueError."""
        return build(cls, parsed(text))


def _digest(told: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def check_kind_of_machine(device_kind: str, machine: Machine) -> None:
    """Raises ValueError when a simulated trial is told of a machine that exists, or another one of
    a machine that does not.
    """
    if (device_kind == DeviceKind.SIMULATED_GPU) != bool(machine.hardware_profile):
        what = (
            f"a hardware profile ({machine.host})"
            if machine.hardware_profile
            else f"a machine that exists ({machine.host})"
        )
        raise ValueError(
            f"device_kind={device_kind} on {what}: simulated numbers are kept apart from "
            "measurements; wanted both or none"
        )

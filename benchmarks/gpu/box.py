"""The box that the kit runs on: its GPUs, or its cores as CPU devices."""

from __future__ import annotations

from dataclasses import dataclass

from conf.schema import HardwareConfig
from scalemark.host import gpu_libraries
from scalemark.records.machine import DeviceKind, Gpu, Machine
from sweeper import SweepRefusedError
from sweeper.devices.machine import describe_machine, take_inventory

AMPERE = (8, 0)  # has bfloat16 and TensorFloat-32
# of ResNet-50 in half precision, activations and what libraries take beside them
_GIB_PER_IMAGE = 0.09
_NUM_SIDES = 3  # of a comparison, alive at once
_BATCH_SIZES = (256, 128, 64, 32)
# of a mode of the self-check: pieces of a GPU have 4 GiB at most, and there are two; CUDA's context
_GIB_PER_MODE = 9
_MOST_MODES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A machine, and its GPUs that the kit may use; none where it runs on CPU devices."""

    machine: Machine
    gpus: tuple[Gpu, ...]

    @property
    def on_gpus(self) -> bool:
        return bool(self.gpus)

    @property
    def hardware(self) -> str:
        """Return the choice of conf/hardware/."""
        return "gpu" if self.on_gpus else "cpu"

    @property
    def size(self) -> str:
        """Return what a stage's time depends on: cpu, gpu, or gpus that a program uses together."""
        return "gpus" if self.most_gpus_per_trial > 1 else self.hardware

    @property
    def devices(self) -> str:
        """Describe what the numbers are made on."""
        if not self.on_gpus:
            return DeviceKind.CPU_DEVICE.note
        names = ", ".join(dict.fromkeys(gpu.name for gpu in self.gpus))
        return f"{DeviceKind.GPU.counted(len(self.gpus))}: {names}"

    @property
    def knows_bfloat16(self) -> bool:
        return all(_version(gpu) >= AMPERE for gpu in self.gpus)

    @property
    def half(self) -> str:
        """Return the precision of 16 bits that the GPUs compute in."""
        return "bf16" if self.knows_bfloat16 else "fp16"

    @property
    def batch_size(self) -> int:
        """Return the largest batch of ResNet-50 with which all sides of a comparison fit."""
        for batch_size in _BATCH_SIZES:
            if _NUM_SIDES * batch_size * _GIB_PER_IMAGE <= self._room_gib:
                return batch_size
        return _BATCH_SIZES[-1]

    @property
    def num_modes_at_once(self) -> int:
        """Return how many modes of the self-check memory and cores have room for."""
        if not self.on_gpus:
            return 1
        fitting = int(self._room_gib / _GIB_PER_MODE)
        return max(1, min(_MOST_MODES, self.machine.num_cores // 2, fitting))

    @property
    def is_mig(self) -> bool:
        """Return whether the GPUs are MIG devices: slices of GPUs."""
        return any(gpu.mig_parent for gpu in self.gpus)

    @property
    def most_gpus_per_trial(self) -> int:
        """Return how many GPUs one program can use: CUDA shows it a single MIG device."""
        return 1 if self.is_mig else len(self.gpus)

    @property
    def _room_gib(self) -> float:
        """Return the memory of the smallest GPU that may be used; 0 where it is unknown."""
        bytes_of = [gpu.memory_bytes for gpu in self.gpus if gpu.memory_bytes is not None]
        return 0.9 * min(bytes_of, default=0) / 2**30

    def mask(self, gpu: int = 0) -> dict[str, str]:
        """Return the variables that show a program this one GPU, or none."""
        return {"CUDA_VISIBLE_DEVICES": self.gpus[gpu].uuid if self.on_gpus else ""}

    def mask_of_most(self) -> dict[str, str]:
        """Return the variables that show a program all GPUs that it can use, or none."""
        uuids = [gpu.uuid for gpu in self.gpus[: self.most_gpus_per_trial]]
        return {"CUDA_VISIBLE_DEVICES": ",".join(uuids)}


def find_box(device: str) -> Box:
    """Describe this machine for --device gpu or cpu. Raises SweepRefusedError without a GPU, and
    for one that TensorFlow has no kernels for.
    """
    kind = DeviceKind.GPU if device == "gpu" else DeviceKind.CPU_DEVICE
    hardware = HardwareConfig(device_kind=kind.value)
    machine = describe_machine(hardware)
    inventory = take_inventory(machine, hardware)
    if problem := gpu_libraries.problem(inventory.gpus, inventory.libraries):
        raise SweepRefusedError(problem)
    return Box(machine=machine, gpus=inventory.gpus)


def _version(gpu: Gpu) -> tuple[int, int]:
    major, minor = gpu.compute_capability.split(".")
    return int(major), int(minor)

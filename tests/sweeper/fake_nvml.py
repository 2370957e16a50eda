"""A driver of records: what NVML would tell of a box of GPUs, under pynvml's own names, refusals included."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml


@dataclass
class FakeGpu:
    """One GPU, or a MIG device; a fact that is None is one that the driver refuses to tell."""

    uuid: str
    name: str = "NVIDIA P100"
    memory_bytes: int | None = 16 * 2**30
    pci_bus_id: str = ""
    power_limit_mw: int | None = None
    nvlinks: list[str] = field(
        default_factory=list
    )  # PCI bus id of what each active link leads to, "switch", or "" for a dead one
    mig_devices: list[FakeGpu | None] | None = None  # a list: in MIG mode; None in it: a gap


@dataclass
class FakeDriver:
    """Functions of pynvml, to be put in the place of the real ones."""

    gpus: list[FakeGpu]
    levels: dict[frozenset[str], int] | None = None  # topology level of two UUIDs; None = refused
    has_remote_types: bool = True
    is_open: int = 0

    def install(self, monkeypatch) -> None:
        for name in dir(self):
            if name.startswith("nvml"):
                assert hasattr(pynvml, name)
                monkeypatch.setattr(pynvml, name, getattr(self, name))

    def nvmlInit(self):  # noqa: N802 -- pynvml's names
        self.is_open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.is_open -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.gpus)

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return "580.1"

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.gpus[index]

    def nvmlDeviceGetPciInfo(self, gpu):  # noqa: N802
        return SimpleNamespace(busId=gpu.pci_bus_id)

    def nvmlDeviceGetUUID(self, gpu):  # noqa: N802
        return gpu.uuid

    def nvmlDeviceGetName(self, gpu):  # noqa: N802
        return gpu.name

    def nvmlDeviceGetMemoryInfo(self, gpu):  # noqa: N802
        return SimpleNamespace(total=reported(gpu.memory_bytes))

    def nvmlDeviceGetCudaComputeCapability(self, gpu):  # noqa: N802
        return (6, 0)

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu):  # noqa: N802
        return reported(gpu.power_limit_mw)

    def nvmlDeviceGetMigMode(self, gpu):  # noqa: N802
        if gpu.mig_devices is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_ENABLE]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu):  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu, index):  # noqa: N802
        device = gpu.mig_devices[index] if index < len(gpu.mig_devices) else None
        if device is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return device

    def nvmlDeviceGetTopologyCommonAncestor(self, one, other):  # noqa: N802
        return reported(self.levels)[frozenset({one.uuid, other.uuid})]

    def nvmlDeviceGetNvLinkState(self, gpu, link):  # noqa: N802
        if link >= len(gpu.nvlinks):
            raise pynvml.NVMLError(
                pynvml.NVML_ERROR_INVALID_ARGUMENT
                if gpu.nvlinks
                else pynvml.NVML_ERROR_NOT_SUPPORTED
            )
        return pynvml.NVML_FEATURE_ENABLED if gpu.nvlinks[link] else pynvml.NVML_FEATURE_DISABLED

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu, link):  # noqa: N802
        if not self.has_remote_types:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return (
            pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
            if gpu.nvlinks[link] == "switch"
            else pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
        )

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu, link):  # noqa: N802
        return SimpleNamespace(busId=gpu.nvlinks[link])


def reported(fact):
    if fact is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return fact

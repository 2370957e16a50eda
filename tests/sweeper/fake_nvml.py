"""A driver of records: what NVML would tell of a box of GPUs, under pynvml's own names, refusals included."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml

WHOLE_GPU = 0xFFFFFFFF  # NVML's number of no GPU instance


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
    computing: dict[int, int | None] | None = field(default_factory=dict)  # pid -> MiB
    drawing: dict[int, int | None] | None = field(default_factory=dict)
    mps_clients: dict[int, int | None] | None = field(default_factory=dict)  # not in `computing`
    unlisted_mib: int | None = 0  # in use by processes that are not listed; None: no figure at all
    has_display: bool | None = False
    compute_mode: int = pynvml.NVML_COMPUTEMODE_DEFAULT
    error: int | None = None  # that the driver has instead of a handle
    gpu_instance: int = 0  # of a MIG device
    ecc_errors: tuple[int, int] | None = None  # corrected and uncorrected ones; None: without ECC
    is_lost: bool = False


@dataclass
class FakeDriver:
    """Functions of pynvml, to be put in the place of the real ones."""

    gpus: list[FakeGpu]
    levels: dict[frozenset[str], int] | None = None  # topology level of two UUIDs; None = refused
    has_remote_types: bool = True
    reserved_mib: int = 0  # of each GPU, by the driver; part of what it calls used unless asked
    is_old: bool = False  # before 510: knows no other figure than that, nor the newest lists
    is_open: int = 0
    has_events: bool = True
    # what happened and was not asked for yet: GPU, number, and GPU instance, if of one alone
    xids: list[tuple[FakeGpu, int, int]] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)  # UUIDs of GPUs that tell of events

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
        if self.gpus[index].error is not None:
            raise pynvml.NVMLError(self.gpus[index].error)
        return self.gpus[index]

    def nvmlDeviceGetPciInfo(self, gpu):  # noqa: N802
        return SimpleNamespace(busId=gpu.pci_bus_id)

    def nvmlDeviceGetUUID(self, gpu):  # noqa: N802
        if gpu.is_lost:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return gpu.uuid

    def nvmlDeviceGetTotalEccErrors(self, gpu, kind, counter):  # noqa: N802
        assert counter == pynvml.NVML_VOLATILE_ECC
        return reported(gpu.ecc_errors)[kind]

    def nvmlEventSetCreate(self):  # noqa: N802
        if not self.has_events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.xids

    def nvmlDeviceRegisterEvents(self, gpu, types, events):  # noqa: N802
        assert (types, events) == (pynvml.nvmlEventTypeXidCriticalError, self.xids)
        self.registered.append(gpu.uuid)

    def nvmlEventSetWait(self, events, timeout_ms):  # noqa: N802
        if not events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        gpu, xid, instance = events.pop(0)
        return SimpleNamespace(device=gpu, eventData=xid, gpuInstanceId=instance)

    def nvmlDeviceIsMigDeviceHandle(self, device):  # noqa: N802
        return int(device not in self.gpus)

    def nvmlDeviceGetGpuInstanceId(self, device):  # noqa: N802
        return device.gpu_instance

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, device):  # noqa: N802
        return next(gpu for gpu in self.gpus if device in (gpu.mig_devices or ()))

    def nvmlDeviceGetName(self, gpu):  # noqa: N802
        return gpu.name

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        for gpu in self.gpus:
            for device in (gpu, *(gpu.mig_devices or ())):
                if device and device.uuid == uuid:
                    return device
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetIndex(self, gpu):  # noqa: N802
        if gpu not in self.gpus:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return self.gpus.index(gpu)

    def nvmlDeviceGetMemoryInfo(self, gpu, version=None):  # noqa: N802
        if version and self.is_old:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        total = reported(gpu.memory_bytes)
        mib = reported(gpu.unlisted_mib) + (0 if version else self.reserved_mib)
        for listed in (gpu.computing, gpu.drawing, gpu.mps_clients):
            mib += sum(one or 0 for one in (listed or {}).values())
        return SimpleNamespace(total=total, used=mib * 2**20)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu):  # noqa: N802
        return self._newest(gpu.computing)

    def nvmlDeviceGetMPSComputeRunningProcesses(self, gpu):  # noqa: N802
        return self._newest(gpu.mps_clients)

    def nvmlDeviceGetGraphicsRunningProcesses(self, gpu):  # noqa: N802
        return self._newest(gpu.drawing)

    def nvmlDeviceGetComputeRunningProcesses_v2(self, gpu):  # noqa: N802
        return processes(gpu.computing)

    def nvmlDeviceGetMPSComputeRunningProcesses_v2(self, gpu):  # noqa: N802
        return processes(gpu.mps_clients)

    def nvmlDeviceGetGraphicsRunningProcesses_v2(self, gpu):  # noqa: N802
        return processes(gpu.drawing)

    def _newest(self, listed):
        if self.is_old:  # as pynvml says it of a function that its library lacks
            raise pynvml.NVMLLibraryMismatchError("Unversioned function called")
        return processes(listed)

    def nvmlDeviceGetDisplayActive(self, gpu):  # noqa: N802
        return int(reported(gpu.has_display))

    def nvmlDeviceGetComputeMode(self, gpu):  # noqa: N802
        return gpu.compute_mode

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


def processes(listed):
    return [
        SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * 2**20)
        for pid, mib in reported(listed).items()
    ]


def reported(fact):
    if fact is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return fact

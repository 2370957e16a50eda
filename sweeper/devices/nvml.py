"""Asks NVML for all GPUs of this machine, what they are cut into, how they are linked, and who uses
them now: those that others use are named to people, and not given to trials.

UUID, name and bus address are demanded; topology, MIG and power are left out where the driver
refuses them. NUMA nodes and nearby cores come from the kernel.

```
  NVML lists processes            a GPU is in use by others when
    that compute, none of ours      together they hold 64 MiB or more of its memory
    that only draw (Xorg)           never: a display disturbs little, and does not end
    MPS' server                     never: its clients count
    none (another container's)      as much of its memory is in use, and no display is on it
    MPS' server, no list of clients the same, without the memory of that server
```
"""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pynvml

from scalemark.host.gpu_libraries import memory_in_use, processes_of, started_by_scalemark
from scalemark.records.machine import Gpu, GpuLink, PcieLevel
from scalemark.text.untrusted import quoted

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
    if not text.isdecimal():  # -1: the firmware did not say
        return None
    return int(text)


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
    for part in filter(None, text.split(",")):
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


_DRIVER_FILES = (
    "dev/nvidiactl",
    "usr/lib/wsl/lib/libcuda.so.1",  # WSL2, whose /dev/dxg is there for GPUs of all makers
)
_PCIE_LEVELS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: PcieLevel.SAME_BOARD,
    pynvml.NVML_TOPOLOGY_SINGLE: PcieLevel.SINGLE_SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: PcieLevel.MULTIPLE_SWITCHES,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: PcieLevel.HOST_BRIDGE,
    pynvml.NVML_TOPOLOGY_NODE: PcieLevel.NUMA_NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: PcieLevel.SYSTEM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGpus:
    """The GPUs that NVML finds on this machine."""

    gpus: tuple[Gpu, ...]  # all physical ones, in PCI order
    links: tuple[GpuLink, ...]  # between each two of them
    driver: str  # version; empty without
    left_out: tuple[str, ...] = ()  # those that cannot be used, as `GPU 3 (GPU is lost)`


class ProhibitedError(pynvml.NVMLError):  # type: ignore[misc]
    """Raised for a GPU in compute mode Prohibited, on which CUDA refuses every process."""

    def __str__(self) -> str:
        return "in compute mode Prohibited; nvidia-smi -c 0 allows processes again"


NOTHING = FoundGpus(gpus=(), links=(), driver="")


def find_gpus(sys: Path = SYS, root: Path = Path("/")) -> FoundGpus:
    """Return all physical GPUs, whatever is visible to this process; none without a driver.

    Raises NVMLError, also where no GPU answers, and where a driver is there and its library is not.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        if any((root / name).exists() for name in _DRIVER_FILES):
            raise
        return NOTHING
    except pynvml.NVMLError_DriverNotLoaded:
        return NOTHING
    try:
        return _asked(sys)
    finally:
        pynvml.nvmlShutdown()


def _asked(sys: Path) -> FoundGpus:
    gpus: list[tuple[Gpu, object]] = []
    left_out: dict[str, pynvml.NVMLError] = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            mode = known(pynvml.nvmlDeviceGetComputeMode, handle)
            if mode == pynvml.NVML_COMPUTEMODE_PROHIBITED:
                raise ProhibitedError(pynvml.NVML_ERROR_NO_PERMISSION)
            gpus.append((_gpu(handle, sys), handle))
        except pynvml.NVMLError as error:  # lost, forbidden or prohibited: counted all the same
            left_out[f"GPU {index} ({error})"] = error
    if left_out and not gpus:
        raise next(iter(left_out.values()))
    gpus.sort(key=lambda pair: pair[0].pci_bus_id)
    return FoundGpus(
        gpus=tuple(gpu for gpu, _ in gpus),
        links=tuple(_links(gpus)),
        driver=pynvml.nvmlSystemGetDriverVersion(),
        left_out=tuple(left_out),
    )


def _gpu(handle: object, sys: Path) -> Gpu:
    pci_bus_id = pynvml.nvmlDeviceGetPciInfo(handle).busId
    node = numa_node(pci_bus_id, sys)
    power_limit_w = None
    power_limit_mw = known(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    if power_limit_mw is not None:
        power_limit_w = float(power_limit_mw) / 1000
    gpu = Gpu(
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        name=pynvml.nvmlDeviceGetName(handle),
        memory_bytes=_memory_bytes(handle),
        pci_bus_id=pci_bus_id,
        compute_capability="{}.{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
        power_limit_w=power_limit_w,
        numa_node=node,
        cores=near_cores(pci_bus_id, node, sys),
    )
    mode = known(pynvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return gpu
    return replace(gpu, mig_mode=True, mig_devices=tuple(_mig_devices(gpu, handle)))


def _mig_devices(gpu: Gpu, handle: object) -> Iterator[Gpu]:
    for index in range(known(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError_NotFound:
            continue  # indices may have gaps
        yield replace(
            gpu,
            uuid=pynvml.nvmlDeviceGetUUID(device),
            name=pynvml.nvmlDeviceGetName(device),
            memory_bytes=_memory_bytes(device),
            power_limit_w=None,  # the whole GPU has one
            mig_parent=gpu.uuid,
        )


def _memory_bytes(handle: object) -> int | None:
    # a GPU that shares the host's memory has none of its own
    memory = known(pynvml.nvmlDeviceGetMemoryInfo, handle)
    if memory is None:
        return None
    return int(memory.total)


def _links(gpus: Sequence[tuple[Gpu, object]]) -> Iterator[GpuLink]:
    ends = {gpu.uuid: _nvlink_ends(handle) for gpu, handle in gpus}
    for (gpu, handle), (peer, peer_handle) in itertools.combinations(gpus, 2):
        num_direct = ends[gpu.uuid].count(peer.pci_bus_id.lower())
        # a message over switches is as fast as the end with fewer links to them
        num_switched = min(ends[gpu.uuid].count(_SWITCH), ends[peer.uuid].count(_SWITCH))
        level = known(pynvml.nvmlDeviceGetTopologyCommonAncestor, handle, peer_handle)
        yield GpuLink(
            between=(gpu.uuid, peer.uuid),
            num_nvlinks=num_direct or num_switched,
            pcie=_PCIE_LEVELS.get(level),
        )


_SWITCH = "switch"


def _nvlink_ends(handle: object) -> list[str]:
    """Return what the active NVLinks of a GPU lead to: a PCI bus id in lower case, or `switch`."""
    ends = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if known(pynvml.nvmlDeviceGetNvLinkState, handle, link) != pynvml.NVML_FEATURE_ENABLED:
            continue
        kind = known(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        remote = known(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            ends.append(_SWITCH)
        elif remote:
            ends.append(str(remote.busId).lower())
    return ends


def known(ask: Callable[..., Any], *arguments: object) -> Any | None:
    """Return the answer; None where this driver, GPU or container refuses it."""
    try:
        return ask(*arguments)
    except pynvml.NVMLError:
        return None


LEAST_BYTES = 64 * 2**20  # a CUDA context has more
MOST_NAMED = 3  # processes of one GPU
UNSEEN = "processes that cannot be seen from here"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInUse:
    """A GPU that others use."""

    uuid: str
    name: str  # as GPU 0, by the number of nvidia-smi
    by: str  # who, as far as that can be seen
    used_bytes: int | None  # by them; None where the driver does not say

    def __str__(self) -> str:
        return f"{self.name} ({self.by})"


class GpuUsers:
    """Looks at who uses GPUs.

    NVML stays open: without persistence mode a GPU that nobody has open takes seconds to answer.
    """

    def __init__(self, uuids: Sequence[str]) -> None:
        self._uuids = uuids
        self._handles: dict[str, Any] | None = None  # None: not opened yet

    def look(self) -> tuple[GpuInUse, ...]:
        """Return those that others use now; none where NVML does not answer."""
        if not self._uuids:
            return ()
        try:
            if self._handles is None:
                pynvml.nvmlInit()
                handles = map(pynvml.nvmlDeviceGetHandleByUUID, self._uuids)
                self._handles = dict(zip(self._uuids, handles, strict=True))
        except pynvml.NVMLError:
            return ()
        in_use = itertools.starmap(self._in_use, self._handles.items())
        return tuple(filter(None, in_use))

    def _in_use(self, uuid: str, handle: Any) -> GpuInUse | None:
        listed = processes_of(handle)
        others = [user for user in listed.computing or () if not started_by_scalemark(user.pid)]
        used_bytes: int | None = 0
        if others:
            sizes = [user.usedGpuMemory for user in others]
            used_bytes = memory_in_use(handle) if None in sizes else sum(sizes)
        elif not listed.is_any and not known(pynvml.nvmlDeviceGetDisplayActive, handle):
            # memory in use is nobody's display: under WSL that of Windows has some
            used_bytes = memory_in_use(handle)
            if used_bytes is not None:
                used_bytes -= listed.mps_server_bytes
        # without figures of memory, who computes is believed
        is_little = not others
        if used_bytes is not None:
            is_little = used_bytes < LEAST_BYTES
        if is_little:
            return None
        name, number = uuid, known(pynvml.nvmlDeviceGetIndex, handle)
        if number is not None and not uuid.startswith("MIG-"):
            name = f"GPU {number}"
        return GpuInUse(uuid=uuid, name=name, by=_named(others), used_bytes=used_bytes)


def said_in_use(gpus: Sequence[GpuInUse]) -> str:
    """Return `GPU 0 (pid 4711 python of anna), GPU 1 (...) are in use by others`."""
    names = ", ".join(map(str, gpus))
    verb = "is"
    if len(gpus) > 1:
        verb = "are"
    return f"{names} {verb} in use by others"


def _named(others: Sequence[Any]) -> str:
    if not others:
        return UNSEEN
    by_size = sorted(others, key=lambda user: (-(user.usedGpuMemory or 0), user.pid))
    named = [_process_name(user.pid) for user in by_size[:MOST_NAMED]]
    if len(others) > MOST_NAMED:
        named.append(f"and {len(others) - MOST_NAMED} more")
    return ", ".join(named)


def _process_name(pid: int) -> str:
    """Return `pid 4711 python of anna`, as far as it can be read here."""
    try:
        process = psutil.Process(pid)
        return f"pid {pid} {quoted(process.name())} of {quoted(process.username())}"
    except psutil.Error:  # of another container, or it has ended
        return f"pid {pid}"

"""What the GPUs, driver and libraries of this host support, and which processes use the GPUs, by
NVML, at any age of the driver, also with MPS.

```
  nvmlDeviceGetComputeRunningProcesses      programs; where MPS runs, its server
  nvmlDeviceGetMPSComputeRunningProcesses   the programs that compute through that server
  nvmlDeviceGetGraphicsRunningProcesses     programs that draw, as Xorg
```
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pynvml

from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from scalemark.records.machine import Gpu

Version = tuple[int, int]

OLDEST = (6, 0)  # compute capability of a GPU that TensorFlow has kernels for
COMPILED_FROM = (9, 0)  # from here on the driver compiles most kernels, above it all
CUDA = (12, 0)  # that a driver must know at least
CUDA_OF_PTX = (12, 5)  # to compile PTX 8.5, that is driver 555
CUDNN_WITHOUT_OLD = (9, 11)
OLDEST_OF_NEW_CUDNN = (7, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """Libraries that trials will load here; None for what is not known."""

    cuda: Version | None = None  # the newest that the driver knows
    cudnn: Version | None = None  # the package; one that the system has is not looked for


def installed() -> Libraries:
    """Ask the driver, and the packages beside this one."""
    cudnn = None
    with suppress(metadata.PackageNotFoundError):
        cudnn = version(metadata.version("nvidia-cudnn-cu12"))
    return Libraries(cuda=_cuda_of_driver(), cudnn=cudnn)


def problem(gpus: Iterable[Gpu], libraries: Libraries) -> str | None:
    """Return why TensorFlow cannot train on one of these GPUs, and what to do."""
    for gpu in gpus:
        lack = problem_of(gpu.name, version(gpu.compute_capability), libraries)
        if lack:
            return lack
    return None


def problem_of(name: str, capability: Version, libraries: Libraries) -> str | None:
    """Return the same of one GPU."""
    cuda, cudnn = libraries.cuda, libraries.cudnn
    which = f"{name} (compute capability {_text(capability)})"
    if capability < OLDEST:
        return (
            f"{which}: TensorFlow has kernels from {_text(OLDEST)} on; hide it by "
            "CUDA_VISIBLE_DEVICES, or choose hardware=cpu"
        )
    if cudnn and cudnn >= CUDNN_WITHOUT_OLD and capability < OLDEST_OF_NEW_CUDNN:
        return (
            f"{which}: cuDNN {_text(cudnn)} is installed, which has kernels from "
            f"{_text(OLDEST_OF_NEW_CUDNN)} on; python3 install.py installs one that has them"
        )
    least = CUDA_OF_PTX if capability >= COMPILED_FROM else CUDA
    if cuda and cuda < least:
        return (
            f"{which}: the driver knows CUDA {_text(cuda)}, and TensorFlow's kernels for this "
            f"GPU want {_text(least)} or newer; update the driver"
        )
    return None


def version(text: str) -> Version:
    """Return the first two numbers of a version."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _cuda_of_driver() -> Version | None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        number = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())  # 12050 for 12.5
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
    return number // 1000, number % 1000 // 10


def _text(number: Version) -> str:
    return ".".join(map(str, number))


# of nvidia-cuda-mps-server, as much as the kernel keeps; nvidia-cuda-mps-control uses no GPU
_MPS_SERVER = "nvidia-cuda-mps"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcesses:
    """The processes of one GPU, as pynvml's records with `pid` and `usedGpuMemory`."""

    # without desktop programs, which draw too, and MPS' server; None where the driver does not
    # tell of all
    computing: tuple[Any, ...] | None
    num_drawing: int
    has_mps: bool  # MPS shares it out
    mps_server_bytes: int = 0  # that MPS' server itself holds

    @property
    def is_any(self) -> bool:
        """Return whether any is known; MPS' clients count, and its server where there is none."""
        has_idle_mps = self.has_mps and self.computing is not None
        return bool(self.computing or self.num_drawing or has_idle_mps)


def processes_of(handle: object) -> GpuProcesses:
    """Return what the driver lists."""
    drawing = {process.pid for process in _listed("Graphics", handle) or ()}
    listed = _listed("Compute", handle)
    clients = _listed("MPSCompute", handle)
    by_pid = {process.pid: process for process in (*(listed or ()), *(clients or ()))}
    servers = {pid for pid in by_pid if _is_mps_server(pid)}
    computing = [process for pid, process in by_pid.items() if pid not in drawing | servers]
    hides_clients = bool(servers) and clients is None
    return GpuProcesses(
        computing=None if listed is None or hides_clients else tuple(computing),
        num_drawing=len(drawing),
        has_mps=bool(servers),
        mps_server_bytes=sum(by_pid[pid].usedGpuMemory or 0 for pid in servers),
    )


def started_by_scalemark(pid: int) -> bool | None:
    """Return whether a process, or one that it descends from, was started for a trial.

    None where no process has this number: it has ended, or is counted as the host counts while
    this container counts otherwise. Of other users' processes the environment cannot be read: they
    are none of ours.
    """
    try:
        process = psutil.Process(pid)
        line = [process, *process.parents()]
    except psutil.NoSuchProcess:
        return None
    for each in line:
        with suppress(psutil.Error, OSError):
            if ORCHESTRATOR_VARIABLE in each.environ():
                return True
    return False


def memory_in_use(handle: object) -> int | None:
    """Return the bytes in use, without what the driver reserves for itself; None where untold.

    Drivers before 510 know no other figure, and reserve nothing in it; later ones count 912 MB of
    an idle A100 as used unless asked so (rust-nvml/nvml-wrapper#57), and 645 MB of an idle H200.
    """
    get = pynvml.nvmlDeviceGetMemoryInfo
    try:
        try:
            return int(get(handle, version=pynvml.nvmlMemory_v2).used)
        except pynvml.NVMLError_FunctionNotFound:
            return int(get(handle).used)
    except pynvml.NVMLError:
        return None


def _listed(kind: str, handle: object) -> list[Any] | None:
    """Return None where this driver, GPU or container refuses it."""
    ask = f"nvmlDeviceGet{kind}RunningProcesses"
    try:
        try:
            return list(getattr(pynvml, ask)(handle))
        except pynvml.NVMLLibraryMismatchError:  # no NVMLError; drivers before 510 lack the newest
            return list(getattr(pynvml, f"{ask}_v2")(handle))
    except pynvml.NVMLError:
        return None


def _is_mps_server(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == _MPS_SERVER
    except OSError:  # of another container, or it has ended
        return False

"""Lists processes of a GPU and its memory in use, by NVML, at any age of the driver, also with MPS.

```
  nvmlDeviceGetComputeRunningProcesses      programs; where MPS runs, its server
  nvmlDeviceGetMPSComputeRunningProcesses   the programs that compute through that server
  nvmlDeviceGetGraphicsRunningProcesses     programs that draw, as Xorg
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

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
    drawing = {one.pid for one in _listed("Graphics", handle) or ()}
    listed = _listed("Compute", handle)
    clients = _listed("MPSCompute", handle)
    found = {one.pid: one for one in (*(listed or ()), *(clients or ()))}
    servers = {pid for pid in found if _is_mps_server(pid)}
    computing = [one for pid, one in found.items() if pid not in drawing | servers]
    hides_clients = bool(servers) and clients is None
    return GpuProcesses(
        computing=None if listed is None or hides_clients else tuple(computing),
        num_drawing=len(drawing),
        has_mps=bool(servers),
        mps_server_bytes=sum(found[pid].usedGpuMemory or 0 for pid in servers),
    )


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

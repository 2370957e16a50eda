"""Finds the GPUs that others use now: they are named to people, and not given to trials.

```
  NVML lists processes            a GPU is in use by others when
    that compute, none of ours      together they hold 64 MiB or more of its memory
    that only draw (Xorg)           never: a display disturbs little, and does not end
    MPS' server                     never: its clients count
    none (another container's)      as much of its memory is in use, and no display is on it
    MPS' server, no list of clients the same, without the memory of that server
```
"""

from __future__ import annotations

import itertools
import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from scalemark.host.gpu_libraries import memory_in_use, processes_of
from scalemark.host.processes import started_by_scalemark
from scalemark.records.machine import DeviceKind
from scalemark.text.untrusted import quoted
from sweeper.devices.machine import Inventory
from sweeper.devices.nvml_inventory import known

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
        if self.used_bytes is None:
            return f"{self.name} ({self.by})"
        memory = f"{self.used_bytes / 2**20:.0f} MiB"
        if self.used_bytes >= 2**30:
            memory = f"{self.used_bytes / 2**30:.1f} GiB"
        return f"{self.name} ({self.by}, {memory})"


class GpuUsers:
    """Looks at who uses the GPUs of an inventory; other devices nobody else can use.

    NVML stays open: without persistence mode a GPU that nobody has open takes seconds to answer.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._uuids: tuple[str, ...] = ()
        if inventory.kind is DeviceKind.GPU and not inventory.num_hosts:
            self._uuids = inventory.uuids(range(inventory.num_devices))
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
    """Return `GPU 0 (pid 4711 python of anna), GPU 1 (...) are in use by others`, without what
    changes from one moment to the next.
    """
    names = ", ".join(f"{gpu.name} ({gpu.by})" for gpu in gpus)
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
    process = Path(f"/proc/{pid}")
    try:
        command = quoted((process / "comm").read_text().strip())
        user = process.stat().st_uid
    except OSError:  # of another container, or it has ended
        return f"pid {pid}"
    try:
        return f"pid {pid} {command} of {quoted(pwd.getpwuid(user).pw_name)}"
    except KeyError:
        return f"pid {pid} {command} of user {user}"

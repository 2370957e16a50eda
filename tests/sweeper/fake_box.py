"""A box of GPUs that do not exist, for real processes: they import a pynvml that answers from files.

`BOX/GPU-0/4711` says how many MiB process 4711 holds of GPU-0, for as long as it lives, and
`BOX/GPU-0/xid` which Xid error it reports next.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from tests.conftest import PROJECT
from tests.sweeper.fake_nvml import WHOLE_GPU, FakeDriver, FakeGpu, processes

VARIABLE = "SCALEMARK_TEST_BOX"
_PYNVML = """
import importlib.util
import sys
import sysconfig

spec = importlib.util.spec_from_file_location(
    "real_pynvml", sysconfig.get_path("purelib") + "/pynvml.py"
)
real = sys.modules["real_pynvml"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(real)
globals().update({name: one for name, one in vars(real).items() if not name.startswith("__")})

from tests.sweeper.fake_box import driver

found = driver()
globals().update({name: getattr(found, name) for name in dir(found) if name.startswith("nvml")})
"""


class BoxDriver(FakeDriver):
    """Lists the processes that have a file and live."""

    def nvmlDeviceGetComputeRunningProcesses(self, gpu):  # noqa: N802
        return processes(_listed(gpu.uuid))

    def nvmlDeviceGetMemoryInfo(self, gpu, version=None):  # noqa: N802
        gpu.computing = _listed(gpu.uuid)
        return super().nvmlDeviceGetMemoryInfo(gpu, version)

    def nvmlEventSetWait(self, events, timeout_ms):  # noqa: N802
        for gpu in self.gpus:
            with suppress(FileNotFoundError):
                path = _box() / gpu.uuid / "xid"
                events.append((gpu, int(path.read_text()), WHOLE_GPU))
                path.unlink()
        if not events:
            time.sleep(min(timeout_ms, 20) / 1000)
        return super().nvmlEventSetWait(events, timeout_ms)


def make(folder: Path, num_gpus: int) -> dict[str, str]:
    """Make a box, and return the environment of processes that are to find it."""
    for number in range(num_gpus):
        (folder / "box" / f"GPU-{number}").mkdir(parents=True)
    (folder / "modules").mkdir()
    (folder / "modules" / "pynvml.py").write_text(_PYNVML)
    path = os.pathsep.join([str(folder / "modules"), str(PROJECT)])
    return dict(os.environ) | {VARIABLE: str(folder / "box"), "PYTHONPATH": path}


def driver() -> BoxDriver:
    names = sorted(path.name for path in _box().iterdir())
    gpus = [
        FakeGpu(name, pci_bus_id=f"00000000:0{number}:00.0") for number, name in enumerate(names)
    ]
    return BoxDriver(gpus)


def hold(box: Path, uuid: str, pid: int, mib: int) -> None:
    """Say that a process holds memory of a GPU."""
    (box / uuid / str(pid)).write_text(str(mib))


def _box() -> Path:
    return Path(os.environ[VARIABLE])


def _listed(uuid: str) -> dict[int, int | None]:
    files = (_box() / uuid).iterdir()
    return {int(path.name): int(path.read_text()) for path in files if _lives(path.name)}


def _lives(pid: str) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"

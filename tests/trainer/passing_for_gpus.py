"""`python -m tests.trainer.passing_for_gpus MODULE ARGUMENT ...` runs a module of this program with CPU devices that pass for GPUs."""

import runpy
import sys
from dataclasses import replace

from scalemark.records.machine import DeviceKind
from trainer import devices

COMMAND = (sys.executable, "-m", "tests.trainer.passing_for_gpus")


def gpus(num_replicas: int, memory_bytes: int = 0) -> devices.Devices:
    """Take the place of `_gpus`, and of `logical_gpus`, which shares the memory of one."""
    return replace(devices._cpu_devices(num_replicas), kind=DeviceKind.GPU, shared=memory_bytes > 0)


if __name__ == "__main__":
    devices._gpus = devices.logical_gpus = gpus
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

"""Names the devices of a trial and makes them: physical GPUs, or logical CPU devices standing in for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from store.records import DeviceKind
from trainer.errors import UnsupportedTrialError

_JOB = "/job:localhost/replica:0/task:0"


def short_name(device: str) -> str:
    """`GPU:0` of a full device name."""
    return device.rsplit("device:", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Where a trial runs.

    ```
    host  CPU:0              host  CPU:0
      |---- GPU:0              |---- CPU:1   stand-in for GPU 0
      |---- GPU:1              |---- CPU:2   stand-in for GPU 1
    ```
    """

    kind: DeviceKind
    host: str  # full device name
    replicas: tuple[str, ...]  # full device name of each replica


def prepare(kind: DeviceKind, num_replicas: int) -> Devices:
    """Claim the devices. Call once, before TensorFlow touches any device.

    Raises UnsupportedTrialError when fewer GPUs are visible than replicas are wanted.
    """
    tf.config.set_soft_device_placement(False)
    return _PREPARE[kind](num_replicas)


def _gpus(num_replicas: int) -> Devices:
    gpus = tf.config.list_physical_devices("GPU")
    num_visible = len(gpus)
    if num_visible < num_replicas:
        raise UnsupportedTrialError(
            f"TensorFlow sees {num_visible} GPUs where the trial wants {num_replicas}; "
            "are the driver and scalemark's extra 'cuda' installed?"
        )
    tf.config.set_visible_devices(gpus[:num_replicas], "GPU")
    return Devices(
        kind=DeviceKind.GPU, host=f"{_JOB}/device:CPU:0", replicas=tuple(f"{_JOB}/device:GPU:{i}" for i in range(num_replicas))
    )


def _stand_ins(num_replicas: int) -> Devices:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_visible_devices([], "GPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * (num_replicas + 1))
    return Devices(
        kind=DeviceKind.CPU_STAND_IN,
        host=f"{_JOB}/device:CPU:0",
        replicas=tuple(f"{_JOB}/device:CPU:{i + 1}" for i in range(num_replicas)),
    )


_PREPARE: dict[DeviceKind, Callable[[int], Devices]] = {DeviceKind.GPU: _gpus, DeviceKind.CPU_STAND_IN: _stand_ins}

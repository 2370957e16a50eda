"""Names the devices of a trial and makes them: physical GPUs, or logical CPU devices standing in for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tensorflow as tf

from store.records import DeviceKind, TrialSpec
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
    shared: bool = False  # replicas are logical devices cut from fewer physical ones

    def check_own_gpus(self) -> None:
        """Raises UnsupportedTrialError unless every replica has a physical GPU to itself, as NCCL needs it."""
        if self.kind is not DeviceKind.GPU or self.shared:
            told = f"these replicas are {self.described}"
            raise UnsupportedTrialError(f"all_reduce=nccl needs one physical GPU per replica; {told}")

    @property
    def described(self) -> str:
        """For messages: what the replicas are."""
        if self.kind is DeviceKind.CPU_STAND_IN:
            return "CPU stand-ins"
        return "logical GPUs cut from one" if self.shared else "GPUs"


def prepare(spec: TrialSpec) -> Devices:
    """Claim the devices and set the threads. Call once, before TensorFlow touches any device.

    Raises UnsupportedTrialError when fewer GPUs are visible than replicas are wanted.
    """
    tf.config.threading.set_inter_op_parallelism_threads(spec.num_inter_threads)
    tf.config.threading.set_intra_op_parallelism_threads(spec.num_intra_threads)
    return claim(DeviceKind(spec.device_kind), spec.num_gpus)


def claim(kind: DeviceKind, num_replicas: int) -> Devices:
    """As `prepare`, with TensorFlow's own choice of threads."""
    tf.config.set_soft_device_placement(False)
    return _CLAIM[kind](num_replicas)


def _gpus(num_replicas: int) -> Devices:
    gpus = tf.config.list_physical_devices("GPU")
    num_visible = len(gpus)
    if num_visible < num_replicas:
        raise UnsupportedTrialError(
            f"TensorFlow sees {num_visible} GPUs where the trial wants {num_replicas}; "
            "are the driver and scalemark's extra 'cuda' installed?"
        )
    tf.config.set_visible_devices(gpus[:num_replicas], "GPU")
    # It would turn NHWC into NCHW and back where it thinks best: the trial says which one runs.
    tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
    return Devices(
        kind=DeviceKind.GPU, host=f"{_JOB}/device:CPU:0", replicas=tuple(f"{_JOB}/device:GPU:{i}" for i in range(num_replicas))
    )


def logical_gpus(num_replicas: int, memory_bytes: int) -> Devices:
    """Cut the first visible GPU in pieces of so much memory: every mode but NCCL can be proven on one GPU.

    Call once, before TensorFlow touches any device. Raises UnsupportedTrialError where there is no GPU.
    """
    tf.config.set_soft_device_placement(False)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise UnsupportedTrialError("TensorFlow sees no GPU to cut")
    tf.config.set_visible_devices(gpus[:1], "GPU")
    piece = tf.config.LogicalDeviceConfiguration(memory_limit=memory_bytes // 2**20)
    tf.config.set_logical_device_configuration(gpus[0], [piece] * num_replicas)
    tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
    replicas = tuple(f"{_JOB}/device:GPU:{i}" for i in range(num_replicas))
    return Devices(kind=DeviceKind.GPU, host=f"{_JOB}/device:CPU:0", replicas=replicas, shared=num_replicas > 1)


def _stand_ins(num_replicas: int) -> Devices:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_visible_devices([], "GPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * (num_replicas + 1))
    return Devices(
        kind=DeviceKind.CPU_STAND_IN,
        host=f"{_JOB}/device:CPU:0",
        replicas=tuple(f"{_JOB}/device:CPU:{i + 1}" for i in range(num_replicas)),
        shared=True,
    )


_CLAIM: dict[DeviceKind, Callable[[int], Devices]] = {DeviceKind.GPU: _gpus, DeviceKind.CPU_STAND_IN: _stand_ins}

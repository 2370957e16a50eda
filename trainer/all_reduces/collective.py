"""TensorFlow's collective as it chooses itself: NCCL on GPUs, its ring elsewhere."""

from collections.abc import Sequence

from scalemark.abilities import AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """Launch a kernel per GPU and message from one process, as nccl does."""
    traffic.collective(sizes, num_gpus, launchers=num_gpus)


ABILITIES = AllReduceAbilities(sends=sends, uses_nccl=True, within_hosts=False)

from scalemark.records.machine import DeviceKind
from trainer.all_reduces.ring import Ring
from trainer.devices import Devices


def create(devices: Devices) -> Ring:
    own_gpus = devices.kind is DeviceKind.GPU and not devices.shared
    return Ring(devices, "nccl" if own_gpus else "ring")

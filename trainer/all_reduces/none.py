"""Sums copies of a gradient on one replica, round robin by tensor, and copies the sum to all."""

from collections.abc import Sequence

from scalemark.abilities import AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """Let gradient i meet on GPU i mod n: round robin by number, not by size."""
    for owner in range(num_gpus):
        owned = sizes[owner::num_gpus]
        for gpu in range(num_gpus):
            traffic.copy(gpu, owner, sum(owned), len(owned))
            traffic.copy(owner, gpu, sum(owned), len(owned))


ABILITIES = AllReduceAbilities(sends=sends)

from trainer.all_reduces.pscpu import SumOnOneDevice
from trainer.devices import Devices


def create(devices: Devices) -> SumOnOneDevice:
    return SumOnOneDevice(devices, devices.replicas)

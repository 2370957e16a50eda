"""Copies of a gradient are summed on one replica, round robin by tensor, and copied back to all."""

from trainer.all_reduces.pscpu import SumOnOneDevice
from trainer.devices import Devices


def create(devices: Devices) -> SumOnOneDevice:
    return SumOnOneDevice(devices, devices.replicas)

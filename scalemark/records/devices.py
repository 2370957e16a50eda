"""The kinds of devices that trials run on, and the notes beside their numbers."""

from __future__ import annotations

from enum import StrEnum

CPU_DEVICES_NOTE = (
    "CPU devices share the cores of one machine: expect speed-ups near 1; nothing here speaks "
    "of GPUs"
)
SIMULATED_NOTE = (
    "Simulated: computed by a cost model for a hardware profile; no GPU was measured, and "
    "nothing here is a measurement"
)


class DeviceKind(StrEnum):
    """The device of a replica: a physical GPU, a logical CPU device, or a cost model of a GPU."""

    plural: str
    singular: str
    note: str  # stands wherever a number of such devices is shown; empty for GPUs

    def __new__(cls, value: str, plural: str = "", note: str = "") -> DeviceKind:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.plural, kind.singular, kind.note = plural, plural.removesuffix("s"), note
        return kind

    GPU = "gpu", "GPUs", ""
    CPU_DEVICE = "cpu_device", "CPU devices", CPU_DEVICES_NOTE
    # of a hardware profile; its numbers are no measurements
    SIMULATED_GPU = "simulated_gpu", "simulated GPUs", SIMULATED_NOTE

    def counted(self, number: int) -> str:
        """Return a count, as `1 GPU` or `4 GPUs`."""
        return f"{number} {self.singular if number == 1 else self.plural}"

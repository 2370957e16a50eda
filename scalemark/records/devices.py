"""The kinds of devices that trials run on, and the note that stands beside their numbers."""

from __future__ import annotations

from enum import StrEnum

STAND_INS_NOTE = (
    "CPU stand-ins share the cores of one machine: expect speed-ups near 1; nothing here speaks "
    "of GPUs"
)
"""Stands wherever a number made on CPU stand-ins is shown."""

SIMULATED_NOTE = (
    "Simulated: computed by a cost model for a hardware profile; no GPU was measured, and "
    "nothing here is a measurement"
)
"""Stands wherever a simulated number is shown."""


class DeviceKind(StrEnum):
    """What a replica runs on: a physical GPU, a logical CPU device standing in for one, or nothing
    but a cost model.
    """

    plural: str  # as people count them
    singular: str
    note: str  # what must stand wherever a number made on such devices is shown; of GPUs nothing

    def __new__(cls, value: str, plural: str = "", note: str = "") -> DeviceKind:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.plural, kind.singular, kind.note = plural, plural.removesuffix("s"), note
        return kind

    GPU = "gpu", "GPUs", ""
    CPU_STAND_IN = "cpu_stand_in", "CPU stand-ins", STAND_INS_NOTE
    # of a hardware profile: no such device was touched, and its numbers are no measurements
    SIMULATED_GPU = "simulated_gpu", "simulated GPUs", SIMULATED_NOTE

    def counted(self, number: int) -> str:
        """As `1 GPU`, `4 GPUs`."""
        return f"{number} {self.singular if number == 1 else self.plural}"

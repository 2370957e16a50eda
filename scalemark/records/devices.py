"""The kinds of devices that trials run on, and the note that stands beside their numbers."""

from __future__ import annotations

from enum import StrEnum


class DeviceKind(StrEnum):
    """What a replica runs on: a physical GPU, a logical CPU device standing in for one, or nothing
    but a cost model.
    """

    GPU = "gpu"
    CPU_STAND_IN = "cpu_stand_in"
    # of a hardware profile: no such device was touched, and its numbers are no measurements
    SIMULATED_GPU = "simulated_gpu"

    @property
    def plural(self) -> str:
        """As people count them."""
        return _COUNTED[self]

    @property
    def singular(self) -> str:
        return self.plural.removesuffix("s")

    def counted(self, number: int) -> str:
        """As `1 GPU`, `4 GPUs`."""
        return f"{number} {self.singular if number == 1 else self.plural}"

    @property
    def note(self) -> str:
        """What must stand wherever a number made on such devices is shown; of GPUs nothing."""
        return {
            DeviceKind.GPU: "",
            DeviceKind.CPU_STAND_IN: STAND_INS_NOTE,
            DeviceKind.SIMULATED_GPU: SIMULATED_NOTE,
        }[self]


_COUNTED = {
    DeviceKind.GPU: "GPUs",
    DeviceKind.CPU_STAND_IN: "CPU stand-ins",
    DeviceKind.SIMULATED_GPU: "simulated GPUs",
}


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

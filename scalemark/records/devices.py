"""The kinds of devices that trials run on, and the notes beside their numbers."""

from __future__ import annotations

from enum import StrEnum


class DeviceKind(StrEnum):
    """The device of a replica: a physical GPU, a logical CPU device, or a cost model of a GPU."""

    plural: str
    singular: str
    meaning: str  # what numbers of such devices are, as docs/glossary.md has it; empty for GPUs

    def __new__(cls, value: str, plural: str = "", meaning: str = "") -> DeviceKind:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.plural, kind.singular, kind.meaning = plural, plural.removesuffix("s"), meaning
        return kind

    GPU = "gpu", "GPUs", ""
    CPU_DEVICE = (
        "cpu_device",
        "CPU devices",
        "parts of one machine's cores; nothing here speaks of GPUs",
    )
    SIMULATED_GPU = (
        "simulated_gpu",
        "simulated GPUs",
        "computed by a cost model; no GPU was measured",
    )

    @property
    def note(self) -> str:
        """Return what stands wherever a number of such devices is shown; empty for GPUs."""
        return f"{self.plural}: {self.meaning}" if self.meaning else ""

    def counted(self, number: int) -> str:
        """Return a count, as `1 GPU` or `4 GPUs`."""
        return f"{number} {self.singular if number == 1 else self.plural}"

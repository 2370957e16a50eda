"""Records of a probe: the devices of a machine, and the links between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from scalemark.records.machine import DeviceKind
from scalemark.records.validation import JsonRecord, check_one_of


class Probed(StrEnum):
    """The things that a probe measures, in its order."""

    about: str

    def __new__(cls, value: str, about: str = "") -> Probed:
        what = str.__new__(cls, value)
        what._value_ = value
        what.about = about
        return what

    PEAK = "peak", "largest rate of a matrix product"
    MEMORY = "memory", "read and written in the device's own memory"
    TO_DEVICE = "to_device", "copied from the host's memory to the device"
    TO_HOST = "to_host", "copied from the device to the host's memory"
    PAIR = "pair", "copied from one device to another"
    ALL_REDUCE = "all_reduce", "bus bandwidth of a reduction over all devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(JsonRecord):
    """One number of a probe, or why it could not be measured."""

    what: str  # a Probed
    value: float | None  # FLOP/s of a peak, else bytes/s; None with a problem
    problem: str = ""
    precision: str = ""  # of a peak
    source: int | None = None  # number of the device among the probed ones; of a pair, copied from
    target: int | None = None  # of a pair, the device that is copied to
    num_bytes: int | None = None  # of one copy or reduction

    def __post_init__(self) -> None:
        check_one_of("what", self.what, Probed)
        if self.value is None and not self.problem:
            raise ValueError(f"{self.what}: wanted a value or a problem, found none of both")
        if self.value is not None and not 0 < self.value < math.inf:
            raise ValueError(f"{self.what}: value={self.value}: wanted more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest(JsonRecord):
    """A request to the measuring process."""

    device_kind: str  # gpu or cpu_device
    num_devices: int
    precisions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(JsonRecord):
    """All that one probe found."""

    machine: str  # Machine.key
    host: str
    device_kind: str  # gpu or cpu_device
    devices: tuple[str, ...]  # name of each, as NVML has it; "CPU device"
    uuids: tuple[str, ...]  # of the GPUs, in the same order; none of CPU devices
    measured_at: str  # UTC
    all_reduce: str  # by which the devices summed: nccl or ring
    figures: tuple[Figure, ...]
    doubts: tuple[str, ...] = ()  # why the figures may be too low
    is_quick: bool = False  # measured in fewer turns, by an earlier version

    @property
    def kind(self) -> DeviceKind:
        return DeviceKind(self.device_kind)

    def of(self, what: Probed) -> Iterator[Figure]:
        """Yield the figures of one kind that were measured."""
        for figure in self.figures:
            if figure.what == what and figure.value is not None:
                yield figure

    def least(self, what: Probed) -> float | None:
        """Return what the slowest device or pair reaches; None where nothing was measured."""
        return min((figure.value for figure in self.of(what) if figure.value), default=None)

    @property
    def bus_bytes_per_s(self) -> float | None:
        """Return the largest bus bandwidth of a reduction of any size."""
        rates = [figure.value for figure in self.of(Probed.ALL_REDUCE) if figure.value]
        return max(rates, default=None)

    @property
    def problems(self) -> tuple[str, ...]:
        """Return why figures are missing, each reason once."""
        found = [figure.problem for figure in self.figures if figure.problem]
        return tuple(dict.fromkeys(found))

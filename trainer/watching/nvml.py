"""What NVML tells of one GPU at one moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pynvml

Told = TypeVar("Told")

GPU_IDLE = "gpu_idle"  # clocks are low because nothing runs: no throttling

_REASONS = {  # bit of nvml.h -> name
    0x001: GPU_IDLE,
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One GPU at one moment. None where it does not tell."""

    uuid: str
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None  # the most this GPU can
    power_w: float | None
    power_limit_w: float | None  # the limit enforced
    temperature_c: int | None
    utilization: float | None  # share of the last moments with a kernel running, 0..1
    memory_used_bytes: int | None  # by all processes
    throttle_reasons: list[str] | None
    pids: list[int] | None  # processes computing on it, ours among them


class Gpus:
    """NVML opened for some GPUs. Raises pynvml.NVMLError where there is no NVML or no such GPU."""

    def __init__(self, uuids: Sequence[str]) -> None:
        pynvml.nvmlInit()
        self._handles = {uuid: pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids}

    def read(self) -> list[Reading]:
        return [_read(uuid, handle) for uuid, handle in self._handles.items()]


def reason_names(bits: int) -> list[str]:
    """Of NVML's bits; one that is not known yet is told as its number."""
    return [
        _REASONS.get(bit, hex(bit))
        for bit in (1 << place for place in range(bits.bit_length()))
        if bits & bit
    ]


def _read(uuid: str, handle: object) -> Reading:
    return Reading(
        uuid=uuid,
        sm_clock_mhz=_told(
            lambda: int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        ),
        max_sm_clock_mhz=_told(
            lambda: int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM))
        ),
        power_w=_told(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        power_limit_w=_told(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
        temperature_c=_told(
            lambda: int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
        ),
        utilization=_told(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
        memory_used_bytes=_told(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)),
        throttle_reasons=_told(lambda: reason_names(_reasons(handle))),
        pids=_told(
            lambda: [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        ),
    )


def _reasons(handle: object) -> int:
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError_FunctionNotFound:  # drivers before 535 have it under its old name only
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _told(ask: Callable[[], Told]) -> Told | None:
    try:
        return ask()
    except pynvml.NVMLError:
        return None

"""Reads from NVML what GPUs report: figures at a moment, and Xid errors as they happen."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TextIO, TypeVar

import pynvml

from scalemark.host.gpu_libraries import memory_in_use, processes_of
from scalemark.host.processes import started_by_scalemark
from scalemark.records.machine import XidError

Answer = TypeVar("Answer")

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
class NvmlReading:
    """One GPU at one moment; None for what it does not report."""

    uuid: str
    sm_clock_mhz: int | None
    max_sm_clock_mhz: int | None  # the most this GPU can
    power_w: float | None  # a mean over the last second on many GPUs
    power_limit_w: float | None  # the limit enforced
    temperature_c: int | None
    utilization: float | None  # share of the last moments with a kernel running, 0..1
    memory_used_bytes: int | None  # by all processes
    throttle_reasons: list[str] | None
    pids: list[int] | None  # processes computing on it, ours among them
    num_others: int | None  # of these, not started by scalemark; None where none are listed
    energy_j: float | None = None  # since the driver was loaded
    # memory errors since then, as ECC found them
    num_corrected_errors: int | None = None
    num_uncorrected_errors: int | None = None


class NvmlGpus:
    """NVML opened for some GPUs. Raises pynvml.NVMLError where there is no NVML or no such GPU."""

    def __init__(self, uuids: Sequence[str]) -> None:
        pynvml.nvmlInit()
        self.handles = {uuid: pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids}

    def read(self) -> list[NvmlReading]:
        return [_read(uuid, handle) for uuid, handle in self.handles.items()]


def reason_names(bits: int) -> list[str]:
    """Name NVML's bits; one that is not known yet gets its number."""
    names = []
    for place in range(bits.bit_length()):
        bit = 1 << place
        if bits & bit:
            names.append(_REASONS.get(bit, hex(bit)))
    return names


def num_others(pids: Collection[int]) -> int | None:
    """Count the processes that scalemark has not started; None without any.

    Some containers see the host's numbers, and cannot tell which are ours: one is taken for ours.
    """
    if not pids:
        return None
    origins = [started_by_scalemark(pid) for pid in set(pids)]
    if all(origin is None for origin in origins):
        return len(origins) - 1
    return len(origins) - origins.count(True)


def _read(uuid: str, handle: object) -> NvmlReading:
    def asked(question: Callable[..., Answer], *arguments: object) -> Answer | None:
        try:
            return question(handle, *arguments)
        except pynvml.NVMLError:
            return None

    computing = processes_of(handle).computing
    pids = None if computing is None else [process.pid for process in computing]
    return NvmlReading(
        uuid=uuid,
        sm_clock_mhz=asked(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
        max_sm_clock_mhz=asked(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        power_w=asked(lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
        power_limit_w=asked(lambda gpu: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000),
        temperature_c=asked(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        utilization=asked(lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100),
        memory_used_bytes=memory_in_use(handle),
        throttle_reasons=asked(lambda gpu: reason_names(_reasons(gpu))),
        pids=pids,
        num_others=num_others(pids or ()),
        energy_j=asked(lambda gpu: pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000),
        num_corrected_errors=asked(_num_errors, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        num_uncorrected_errors=asked(_num_errors, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    )


def _num_errors(handle: object, kind: int) -> int:
    return int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC))


def _reasons(handle: object) -> int:
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError_FunctionNotFound:  # drivers before 535 have it under its old name only
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


class XidEvents:
    """Writes each kind of error of each GPU once; without an event this is a sleep.

    Errors of a GPU that a MIG device is cut from are written without a name.
    """

    def __init__(
        self,
        handles: Mapping[str, Any],
        out: TextIO,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Say on stderr where GPUs tell of no errors; then it only sleeps."""
        self._out, self._clock, self._sleep = out, clock, sleep
        self._uuids = frozenset(handles)
        self._written: set[tuple[str, int]] = set()
        self._events: Any = None
        registered: set[str] = set()
        try:
            self._events = pynvml.nvmlEventSetCreate()
            for handle in handles.values():
                if pynvml.nvmlDeviceIsMigDeviceHandle(handle):
                    handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
                gpu = pynvml.nvmlDeviceGetUUID(handle)
                if gpu not in registered:
                    kind = pynvml.nvmlEventTypeXidCriticalError
                    pynvml.nvmlDeviceRegisterEvents(handle, kind, self._events)
                    registered.add(gpu)
        except pynvml.NVMLError as error:
            self._give_up(error)

    def sleep(self, duration_s: float) -> None:
        """Wait so long, and write the errors that come meanwhile."""
        end_s = self._clock() + duration_s
        left_s = duration_s
        while left_s > 0:
            if self._events is None:
                self._sleep(left_s)
            else:
                self._wait(left_s)
            left_s = end_s - self._clock()

    def _wait(self, timeout_s: float) -> None:
        try:
            event = pynvml.nvmlEventSetWait(self._events, math.ceil(timeout_s * 1000))
        except pynvml.NVMLError_Timeout:
            return
        except pynvml.NVMLError as error:
            self._give_up(error)
            return
        try:
            gpu = pynvml.nvmlDeviceGetUUID(event.device)
        except pynvml.NVMLError:  # it is lost
            gpu = ""
        reported = XidError(
            time_s=self._clock(), uuid=gpu if gpu in self._uuids else "", xid=event.eventData
        )
        if (reported.uuid, reported.xid) not in self._written:
            self._written.add((reported.uuid, reported.xid))
            self._out.write(json.dumps(asdict(reported)) + "\n")
            self._out.flush()
            print(reported, file=sys.stderr, flush=True)

    def _give_up(self, error: pynvml.NVMLError) -> None:
        self._events = None
        print(f"Xid errors of GPUs are not watched: NVML: {error}", file=sys.stderr, flush=True)

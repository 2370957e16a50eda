"""Waits for the Xid errors of GPUs, which NVML tells as they happen."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TextIO

import pynvml

from scalemark.records.machine import XidError

_ANY_INSTANCE = 0xFFFFFFFF  # of an error of the whole GPU


class XidEvents:
    """Writes each kind of error of each GPU once; without an event this is a sleep.

    MIG devices hear of the errors of their GPU that are the whole GPU's or their own.
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
        self._instances: dict[str, dict[str, int]] = {}  # of a GPU's UUID: by UUID of its devices
        self._written: set[tuple[str, int]] = set()
        self._events: Any = None
        try:
            self._events = pynvml.nvmlEventSetCreate()
            for uuid, handle in handles.items():
                self._register(uuid, handle)
        except pynvml.NVMLError as error:
            self._give_up(error)

    def sleep(self, duration_s: float) -> None:
        """Wait so long, and write the errors that come meanwhile."""
        end_s = self._clock() + duration_s
        while (left_s := end_s - self._clock()) > 0:
            if self._events is None:
                self._sleep(left_s)
            else:
                self._wait(left_s)

    def _register(self, uuid: str, handle: Any) -> None:
        instance = _ANY_INSTANCE
        if pynvml.nvmlDeviceIsMigDeviceHandle(handle):
            instance = pynvml.nvmlDeviceGetGpuInstanceId(handle)
            handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        gpu = pynvml.nvmlDeviceGetUUID(handle)
        if gpu not in self._instances:
            pynvml.nvmlDeviceRegisterEvents(
                handle, pynvml.nvmlEventTypeXidCriticalError, self._events
            )
        self._instances.setdefault(gpu, {})[uuid] = instance

    def _wait(self, timeout_s: float) -> None:
        try:
            event = pynvml.nvmlEventSetWait(self._events, math.ceil(timeout_s * 1000))
        except pynvml.NVMLError_Timeout:
            return
        except pynvml.NVMLError as error:
            self._give_up(error)
            return
        for uuid in self._devices_of(event):
            self._write(XidError(time_s=self._clock(), uuid=uuid, xid=event.eventData))

    def _devices_of(self, event: Any) -> list[str]:
        try:
            gpu = pynvml.nvmlDeviceGetUUID(event.device)
        except pynvml.NVMLError:  # it is lost
            return [""]
        devices = []
        for uuid, instance in self._instances[gpu].items():
            if event.gpuInstanceId in (instance, _ANY_INSTANCE) or instance == _ANY_INSTANCE:
                devices.append(uuid)
        return devices

    def _write(self, error: XidError) -> None:
        if (error.uuid, error.xid) in self._written:
            return
        self._written.add((error.uuid, error.xid))
        self._out.write(json.dumps(asdict(error)) + "\n")
        self._out.flush()
        print(error, file=sys.stderr, flush=True)

    def _give_up(self, error: pynvml.NVMLError) -> None:
        self._events = None
        print(f"Xid errors of GPUs are not watched: NVML: {error}", file=sys.stderr, flush=True)

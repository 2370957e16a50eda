"""The clock of each GPU of a trial, and why it was lowered, by NVML's telemetry."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SLOWER_CLOCK_FROM = 0.10  # below the median of the others


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuClock:
    """One GPU over all attempts of a trial; None for what it does not report."""

    uuid: str
    clock_mhz: float | None  # median
    temperature_c: float | None  # highest
    reasons: tuple[str, ...]  # why its clock was lowered, as trainer/watching/nvml.py names them
    replica: int | None  # that it computed; None where repeats had other GPUs


def gpu_clocks(attempts: Sequence[Mapping[str, Any]]) -> tuple[GpuClock, ...]:
    """Read them of rows of `store.reading.queries.attempt_details`, in the order of replicas."""
    seen: dict[str, list[Mapping[str, Any]]] = {}
    for row in attempts:
        for gpu in row.get("recorded_telemetry") or ():
            seen.setdefault(gpu["uuid"], []).append(gpu)
    is_same = all(
        [gpu["uuid"] for gpu in row["recorded_telemetry"]] == list(seen)
        for row in attempts
        if row.get("recorded_telemetry")
    )
    return tuple(
        _clock(uuid, times, number if is_same else None)
        for number, (uuid, times) in enumerate(seen.items())
    )


def _clock(uuid: str, times: Sequence[Mapping[str, Any]], replica: int | None) -> GpuClock:
    clocks = [gpu["sm_clock_mhz"] for gpu in times if gpu["sm_clock_mhz"] is not None]
    heats = [gpu["temperature_c"] for gpu in times if gpu["temperature_c"] is not None]
    reasons = {reason for gpu in times for reason in gpu["throttle_reasons"]}
    return GpuClock(
        uuid=uuid,
        clock_mhz=statistics.median(clocks) if clocks else None,
        temperature_c=max(heats, default=None),
        reasons=tuple(sorted(reasons)),
        replica=replica,
    )


def slower_clocks(gpus: Sequence[GpuClock]) -> list[tuple[GpuClock, float]]:
    """Return GPUs whose clock is 10 % or more below the median of the others', and that median."""
    known = [(gpu, gpu.clock_mhz) for gpu in gpus if gpu.clock_mhz is not None]
    found = []
    for gpu, clock in known:
        others = [of_other for other, of_other in known if other is not gpu]
        usual = statistics.median(others) if others else clock
        if clock <= (1 - SLOWER_CLOCK_FROM) * usual:
            found.append((gpu, usual))
    return found

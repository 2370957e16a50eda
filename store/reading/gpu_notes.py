"""Says of a GPU what is no doubt about its numbers: a clock below its highest, corrected errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scalemark.text.wording import counted

_POWER_CAP = "sw_power_cap"  # as trainer/watching/nvml.py names it
_NEAR_HIGHEST = 0.9  # of the highest clock; above nothing is said


def gpu_notes(telemetry: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each of these recorded GpuTelemetry of which there is something to say.

    Cards of little power for their size, as T4, L4, A10 and H100 PCIe, work at their power limit
    all the time, and then below their highest clock.
    """
    for gpu in telemetry:
        yield from _clock_notes(gpu)
        if num_corrected := gpu.get("num_corrected_errors"):
            yield f"ECC corrected {counted(num_corrected, 'memory error')} of {gpu['uuid']}"


def _clock_notes(gpu: Mapping[str, Any]) -> Iterator[str]:
    clock, highest = gpu.get("sm_clock_mhz"), gpu.get("max_sm_clock_mhz")
    if not clock or not highest:
        return
    is_capped = _POWER_CAP in gpu.get("throttle_reasons", ())
    if is_capped or clock < _NEAR_HIGHEST * highest:
        limit = gpu.get("power_limit_w")
        why = f", at its power limit of {limit:.0f} W" if is_capped and limit else ""
        yield f"{gpu['uuid']} ran at {clock:.0f} of {highest:.0f} MHz{why}"

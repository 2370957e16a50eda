"""Says of a GPU that ran below its highest clock what is no doubt about its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_POWER_CAP = "sw_power_cap"  # as trainer/watching/nvml.py names it
_NEAR_HIGHEST = 0.9  # of the highest clock; above nothing is said


def clock_notes(telemetry: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each of these recorded GpuTelemetry of which there is something to say.

    Cards of little power for their size, as T4, L4, A10 and H100 PCIe, work at their power limit
    all the time, and then below their highest clock.
    """
    for gpu in telemetry:
        clock, highest = gpu.get("sm_clock_mhz"), gpu.get("max_sm_clock_mhz")
        if not clock or not highest:
            continue
        is_capped = _POWER_CAP in gpu.get("throttle_reasons", ())
        if is_capped or clock < _NEAR_HIGHEST * highest:
            limit = gpu.get("power_limit_w")
            why = f", at its power limit of {limit:.0f} W" if is_capped and limit else ""
            yield f"{gpu['uuid']} ran at {clock:.0f} of {highest:.0f} MHz{why}"

"""How far a trial uses its devices: model FLOPs utilization, and the bytes that they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalemark.stats import welch


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The figures of one trial. None where any of its repeats does not tell."""

    mfu: float | None = None  # 0..1, geometric mean of the repeats
    # largest of any GPU, on CPU devices of the trial's process, in any repeat
    memory_bytes: int | None = None
    variable_bytes: int | None = None  # largest of any device in any repeat
    optimizer_state_bytes: int | None = None  # the same


UNKNOWN = Usage()


def usage_of(attempts: Sequence[Mapping[str, Any]]) -> Usage:
    """Sum up the repeats of one trial, as `store.reading.queries.measured` has them."""
    return Usage(
        mfu=_mean(attempts),
        memory_bytes=_largest(attempts, "peak_device_memory_bytes")
        or _largest(attempts, "peak_host_memory_bytes"),
        variable_bytes=_largest(attempts, "variable_bytes"),
        optimizer_state_bytes=_largest(attempts, "optimizer_state_bytes"),
    )


def _mean(attempts: Sequence[Mapping[str, Any]]) -> float | None:
    known = [value for attempt in attempts if (value := attempt["mfu"]) is not None]
    # databases that others wrote may hold anything
    if not known or len(known) < len(attempts) or not all(0 < value < math.inf for value in known):
        return None
    return welch.typical(known)


def _largest(attempts: Sequence[Mapping[str, Any]], name: str) -> int | None:
    known = [value for attempt in attempts if (value := attempt[name]) is not None]
    return max(known) if known and len(known) == len(attempts) else None

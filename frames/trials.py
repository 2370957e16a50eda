"""The frame of trials: one row per trial and environment, with its repeats and its baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from analysis.results import Result
from frames.empty import frame
from scalemark.records.trial import AXES
from scalemark.text.wording import SortKey, natural

_FIRST = {
    "model": "str",
    "strategy": "str",
    "num_gpus": "int64",
    "hosts": "int64",
    "batch_size": "Int64",
    "precision": "str",
}
_NUMBERS = {
    "throughput": "float64",
    "throughput_low": "float64",
    "throughput_high": "float64",
    "num_repeats": "int64",
    "num_failed": "int64",
    "speed_up": "float64",
    "efficiency": "float64",
    "outcome": "str",
    "is_valid": "bool",
    "item": "str",
}
_USAGE = {
    "mfu": "float64",
    "memory_bytes": "Int64",
    "variable_bytes": "Int64",
    "optimizer_state_bytes": "Int64",
}
_ENVIRONMENT = {
    "origin": "str",
    "environment": "str",
    "host": "str",
    "machine": "str",
    "versions": "str",
    "device_kind": "str",  # of the devices that num_gpus counts
    "shares_host": "bool",
    "trial_id": "str",
    "attempts": "object",
    "repeats": "object",
}
_DTYPES = {bool: "boolean", int: "Int64", float: "float64", str: "str"}


def dtypes(results: Iterable[Result] = (), between: dict[str, str] | None = None) -> dict[str, str]:
    """Return column -> dtype; `between` stand behind the numbers. Axes that only some results have,
    as those of a user's program, come after ours.
    """
    own = {name: _DTYPES[axis.type] for name, axis in AXES.items()}
    found: dict[str, str] = (
        _FIRST | _NUMBERS | (between or {}) | own | _FIRST | _USAGE | _ENVIRONMENT
    )
    for result in results:
        found |= dict.fromkeys(result.free, "object")
    return found


def trials_frame(results: Sequence[Result]) -> pd.DataFrame:
    ordered = sorted(results, key=order)
    return frame([record(result) for result in ordered], dtypes(ordered))


def order(result: Result) -> tuple[SortKey, ...]:
    """Sort by model, then batch and precision, then as strategies scale, then by all axes."""
    axes = result.axes
    first = ("model", "batch_size", "precision", "strategy", "hosts", "num_gpus")
    others = [name for name in (*AXES, *result.free) if name not in first]
    texts = [*(str(axes.get(name, "")) for name in (*first, *others)), result.environment.key]
    return tuple(natural(text) for text in texts)


def record(result: Result) -> dict[str, Any]:
    """Return a row, by column."""
    environment = result.environment
    axes = {name: _typed(name, result.axes.get(name)) for name in AXES}
    return {
        **axes,
        **result.free,
        "strategy": result.strategy,
        "num_gpus": result.num_gpus,
        "hosts": result.hosts,
        "throughput": result.throughput,
        "throughput_low": result.low,
        "throughput_high": result.high,
        "num_repeats": len(result.repeats),
        "num_failed": len(result.failed),
        "speed_up": result.speed_up,
        "efficiency": result.efficiency,
        "outcome": str(result.outcome),
        "is_valid": result.is_valid,
        "item": result.item,
        "mfu": result.usage.mfu,
        "memory_bytes": result.usage.memory_bytes,
        "variable_bytes": result.usage.variable_bytes,
        "optimizer_state_bytes": result.usage.optimizer_state_bytes,
        "origin": str(environment.origin),
        "environment": environment.key,
        "host": environment.host,
        "machine": environment.machine,
        "versions": environment.versions,
        "device_kind": str(environment.device_kind),
        "shares_host": environment.shares_host,
        "trial_id": result.trial_id,
        "attempts": result.attempt_ids,
        "repeats": result.repeats,
    }


def _typed(name: str, value: object) -> object:
    """Sources report some numbers in words, and the most of the axes not at all."""
    if AXES[name].type is str or value is None:
        return None if value is None else str(value)
    return value if isinstance(value, bool | int | float) else None

"""Quantities that a cell can hold, and how each is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analysis.results import Origin, Result, items_per_step
from analysis.text.numbers import number, rate_span
from scalemark.text.decimals import fixed
from store.errors import StoreError
from store.filters.selection import nearest

THROUGHPUT = "throughput"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A figure of a result that has a throughput."""

    # with its unit, so that cells can be read alone; empty where it is not known
    text: Callable[[Result], str]
    about: str = ""  # for readers of a table, where the name does not say it all


def chosen(names: str) -> tuple[str, ...]:
    """Split a list with commas. Raises StoreError for an unknown name."""
    found = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in found:
        if name not in QUANTITIES:
            near = nearest(name[:100], list(QUANTITIES))
            raise StoreError(f"{name[:100] or 'an empty name'}: no such quantity; {near}")
    return found


def usual(results: Sequence[Result]) -> tuple[str, ...]:
    """Return throughput and speed-up; the interval too where trials were repeated, and the ratio
    instead of the speed-up where there is another side. On one number of devices a speed-up against
    itself says nothing.
    """
    found = [THROUGHPUT]
    if any(len(result.repeats) > 1 for result in results):
        found.append("interval")
    if any(result.against for result in results):
        found.append("ratio")
    elif len({result.num_gpus for result in results}) > 1 or not all(
        map(_is_own_baseline, results)
    ):
        found.append("speed-up")
    return tuple(found)


def _is_own_baseline(result: Result) -> bool:
    return result.baseline is not None and result.baseline.trial_id == result.trial_id


def _throughput(result: Result) -> str:
    if result.throughput is None:
        return ""
    return number(result.throughput, exactly=result.environment.origin is Origin.PUBLISHED)


def _interval(result: Result) -> str:
    if result.low is None or result.high is None or result.throughput is None:
        return ""
    return f"[{rate_span(result.low, result.high, result.throughput)}]"


def _speed_up(result: Result) -> str:
    return "" if result.speed_up is None else f"{fixed(result.speed_up, 2)}x"


def _efficiency(result: Result) -> str:
    return "" if result.efficiency is None else f"{fixed(100 * result.efficiency, 1)} %"


def _repeats(result: Result) -> str:
    return f"n={len(result.repeats)}"


def _step_ms(result: Result) -> str:
    items = items_per_step(result)
    if not items or not result.throughput:
        return ""
    return f"{number(1000 * items / result.throughput)} ms"


def _per_device(result: Result) -> str:
    if result.throughput is None:
        return ""
    return (
        f"{number(result.throughput / result.num_gpus)}/{result.environment.device_kind.singular}"
    )


def _ratio(result: Result) -> str:
    if result.against is None:
        return ""
    tie = "≈" if result.against.is_tie else ""
    return f"{tie}{number(result.against.ratio)} of {_throughput(result.against.other)}"


def _mfu(result: Result) -> str:
    mfu = result.usage.mfu
    return UNKNOWN if mfu is None else f"{100 * mfu:.3g} %"


def _memory(result: Result) -> str:
    return _mebibytes(result.usage.memory_bytes)


def _variables(result: Result) -> str:
    return _mebibytes(result.usage.variable_bytes)


def _optimizer_state(result: Result) -> str:
    return _mebibytes(result.usage.optimizer_state_bytes)


def _mebibytes(num_bytes: int | None) -> str:
    return UNKNOWN if num_bytes is None else f"{number(num_bytes / 2**20)} MiB"


_INTERVAL = (
    "95 %, by Student's t on logarithms of the processes' throughputs; of a single process: within "
    "it"
)
_RATIO = (
    "throughput here, divided by that of the other side, which follows; it has an interval where "
    "both sides ran in two processes or more"
)
_MFU = (
    "model FLOPs utilization: FLOPs of the model's definition that a device trains per second, "
    "forward and backward, divided by those of its fastest product of matrices; CPU devices have "
    "equal parts of what all cores reach"
)

QUANTITIES: Mapping[str, Quantity] = {
    THROUGHPUT: Quantity(
        text=_throughput, about="geometric mean of the repeats, each a process of its own"
    ),
    "interval": Quantity(text=_interval, about=_INTERVAL),
    "speed-up": Quantity(text=_speed_up),
    "efficiency": Quantity(
        text=_efficiency, about="speed-up, times the devices of the baseline, per device"
    ),
    "repeats": Quantity(text=_repeats, about="processes that completed"),
    "ms/step": Quantity(text=_step_ms, about="milliseconds per step, from the throughput"),
    "per-device": Quantity(text=_per_device, about="throughput divided by the number of devices"),
    "ratio": Quantity(text=_ratio, about=_RATIO),
    "mfu": Quantity(text=_mfu, about=_MFU),
    "memory": Quantity(
        text=_memory, about="largest of any GPU; on CPU devices that of the trial's process"
    ),
    "variables": Quantity(
        text=_variables,
        about="copies of the trained variables between steps, on the device that has most of them",
    ),
    "optimizer-state": Quantity(
        text=_optimizer_state, about="slots of the optimizer on the device that has most of them"
    ),
}
"""Quantities by the names that `--show` takes, in the order in which they are listed."""

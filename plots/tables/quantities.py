"""What can stand in a cell: each quantity with its unit, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analysis.results import Origin, Result
from analysis.text.numbers import number, span
from store.errors import StoreError
from store.filters.selection import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """Of a result that has images/s."""

    name: str  # as `--show` takes it
    # with its unit, so that cells can be read alone; empty where it is not known
    text: Callable[[Result], str]
    about: str = ""  # for readers of a table, where the name does not say it all


def chosen(names: str) -> tuple[str, ...]:
    """Of a list with commas. Raises StoreError for a name that is none."""
    found = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    check(found)
    return found


def check(names: Sequence[str]) -> None:
    """Raises StoreError for a name that is none."""
    for name in names:
        if name not in QUANTITIES:
            known = list(QUANTITIES)
            near = nearest(name[:100], known)
            raise StoreError(f"{name[:100] or 'an empty name'}: no such quantity; {near}")


def usual(results: Sequence[Result]) -> tuple[str, ...]:
    """Images/s and speed-up; between them the interval where one over processes is known, and with
    another side the ratio.
    """
    found = ["images/s"]
    if any(len(result.repeats) > 1 for result in results):
        found.append("interval")
    found.append("ratio" if any(result.against for result in results) else "speed-up")
    return tuple(found)


def _images(result: Result) -> str:
    return _of(result, result.throughput)


def _interval(result: Result) -> str:
    if result.low is None or result.high is None or result.throughput is None:
        return ""
    return f"[{span(result.low, result.high, result.throughput)}]"


def _speed_up(result: Result) -> str:
    return "" if result.speed_up is None else f"{result.speed_up:.2f}x"


def _efficiency(result: Result) -> str:
    return "" if result.efficiency is None else f"{100 * result.efficiency:.1f} %"


def _repeats(result: Result) -> str:
    return f"n={len(result.repeats)}"


def _step_ms(result: Result) -> str:
    batch_size = result.axes["batch_size"]
    if batch_size is None or not result.throughput:
        return ""
    return f"{number(1000 * batch_size * result.num_gpus / result.throughput)} ms"


def _images_per_gpu(result: Result) -> str:
    per_gpu = None if result.throughput is None else result.throughput / result.num_gpus
    return (
        "" if per_gpu is None else f"{number(per_gpu)}/{result.place.counted(1).removeprefix('1 ')}"
    )


def _ratio(result: Result) -> str:
    if result.against is None:
        return ""
    tie = "≈" if result.against.is_tie else ""
    return (
        f"{tie}{number(result.against.ratio)} of "
        f"{_of(result.against.other, result.against.other.throughput)}"
    )


def _of(result: Result, value: float | None) -> str:
    return "" if value is None else number(value, exactly=result.place.origin is Origin.PUBLISHED)


_INTERVAL = (
    "95 %, by Student's t on logarithms of the processes' images/s; of one process alone: within it"
)

QUANTITIES: Mapping[str, Quantity] = {
    quantity.name: quantity
    for quantity in (
        Quantity(
            name="images/s", text=_images, about="median of the repeats, each a process of its own"
        ),
        Quantity(name="interval", text=_interval, about=_INTERVAL),
        Quantity(name="speed-up", text=_speed_up),
        Quantity(
            name="efficiency",
            text=_efficiency,
            about="speed-up, times the devices of the baseline, per device",
        ),
        Quantity(name="repeats", text=_repeats, about="processes that completed"),
        Quantity(name="ms/step", text=_step_ms, about="milliseconds per step, as images/s say"),
        Quantity(name="images/s/gpu", text=_images_per_gpu, about="images/s per device"),
        Quantity(
            name="ratio",
            text=_ratio,
            about="images/s here, times those of the other side, which stand behind it",
        ),
    )
}
"""Name -> quantity, in the order in which they are listed."""

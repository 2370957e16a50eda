"""Axes of numbers: what they reach from and to, their ticks, and which labels have room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from plots.pictures.lettering import width_in
from plots.pictures.theme import SMALL_PT

_SIDE_IN = 0.36  # between the frame and the first and last GPU count
_NEAR = 1.6  # the ideal is shown to its end where that is at most so many times the largest value


class Values(StrEnum):
    """The quantity along the y axis."""

    AMOUNT = "amount"
    RATIO = "ratio"
    SHARE = "share"  # in percent, always from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The y axis, without the foot."""

    is_log: bool
    bottom: float
    top: float
    ticks: Sequence[float]
    names: Sequence[str]  # of the ticks

    def share(self, value: float | None) -> float:
        """Return how high a value stands, from 0 at the bottom to 1 at the top."""
        if value is None:
            return 0.0
        if self.is_log:
            return math.log(value / self.bottom) / math.log(self.top / self.bottom)
        return (value - self.bottom) / (self.top - self.bottom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The x axis."""

    is_log: bool
    first: int
    pitch_in: float  # of a doubling, or of one GPU

    def at(self, count: int) -> float:
        """Return the distance from the first count, in inches."""
        steps = math.log2(count / self.first) if self.is_log else count - self.first
        return self.pitch_in * steps


def x_scale(gpus: Sequence[int], width_in: float, *, is_log: bool) -> Scale:
    """Return an axis of true distances, or a logarithmic one, where 1, 2, 4, 8 stand evenly."""
    if len(gpus) == 1:
        return Scale(is_log=False, first=gpus[0], pitch_in=width_in)
    reach = math.log2(gpus[-1] / gpus[0]) if is_log else gpus[-1] - gpus[0]
    return Scale(is_log=is_log, first=gpus[0], pitch_in=(width_in - 2 * _SIDE_IN) / reach)


def draw_x(axes: Axes, gpus: Sequence[int], x: Scale, label: str) -> None:
    side = _SIDE_IN / x.pitch_in if len(gpus) > 1 else 1.0
    if x.is_log:
        axes.set_xscale("log", base=2)
        axes.set_xlim(gpus[0] / 2**side, gpus[-1] * 2**side)
    else:
        axes.set_xlim(gpus[0] - side, gpus[-1] + side)
    shown = with_room({count: width_in(str(count), SMALL_PT) + 0.04 for count in gpus}, x)
    axes.xaxis.set_major_locator(FixedLocator(gpus))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(
        FixedFormatter([str(count) if count in shown else "" for count in gpus])
    )
    axes.set_xlabel(label)


def with_room(widths_in: dict[int, float], x: Scale) -> set[int]:
    """Return the counts whose labels, of these widths, fit side by side: powers of two first."""
    placed: list[tuple[float, float]] = []
    shown = set()
    for count in sorted(widths_in, key=lambda count: (count & (count - 1) != 0, -count)):
        half_in = widths_in[count] / 2
        left, right = x.at(count) - half_in, x.at(count) + half_in
        if all(right <= other_left or left >= other_right for other_left, other_right in placed):
            placed.append((left, right))
            shown.add(count)
    return shown


def y_range(y: Values, values: Sequence[float], ideals: Sequence[float], *, is_log: bool) -> Range:
    """Reach from 0 to the largest value, and to the ideal where that is near; a logarithmic axis,
    on which perfect scaling is a straight line, reaches to all of it.
    """
    reached = list(values)
    if is_log or max(ideals, default=0.0) <= _NEAR * max(values):
        reached += ideals
    if is_log:
        low, high = math.log(min(reached)), math.log(max(reached))
        reach = 0.56 * max(high - low, math.log(2))
        bottom, top = math.exp((low + high) / 2 - reach), math.exp((low + high) / 2 + reach)
        ticks = log_ticks(bottom, top, octaves=y is Values.RATIO)
    else:
        least_top = 1.0 if y is Values.SHARE else 0.0
        bottom, top = 0.0, 1.08 * max(least_top, *reached)
        ticks = even_ticks(top)
    names = tick_names(ticks)
    if y is Values.SHARE:
        names = [f"{100 * tick:.0f} %" for tick in ticks]
    return Range(is_log=is_log, bottom=bottom, top=top, ticks=ticks, names=names)


def draw_y(axes: Axes, shown: Range, share: float) -> None:
    """Leave room for the foot below the values, of this share of what they have."""
    if shown.is_log:
        axes.set_yscale("log")
        axes.set_ylim(shown.bottom * (shown.bottom / shown.top) ** share, shown.top)
    else:
        axes.set_ylim(-shown.top * share, shown.top)
    axes.yaxis.set_major_locator(FixedLocator(shown.ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FixedFormatter(shown.names))


def tick_names(ticks: Sequence[float]) -> list[str]:
    """Return the numbers beside an axis, as `1,500` or `0.25`."""
    return [f"{tick:,.0f}" if 100 <= tick < 1e15 else f"{tick:.3g}" for tick in ticks]


def even_ticks(end: float) -> list[float]:
    """Return four to nine round numbers from 0 to the end."""
    decade = 10.0 ** math.floor(math.log10(end))
    step = next(step * decade for step in (0.1, 0.2, 0.5, 1.0, 2.0) if end / (step * decade) < 8.5)
    return [index * step for index in range(int(end / step) + 1)]


def log_ticks(low: float, high: float, *, octaves: bool = False) -> list[float]:
    """Return four to nine round numbers in between; `octaves`: preferably powers of two."""
    doubled = [
        2.0**power for power in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    ]
    if octaves and len(doubled) >= 3:
        return doubled[:: math.ceil(len(doubled) / 9)]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (
        (1,),
        (1, 2, 5),
        (1, 1.5, 2, 3, 4, 5, 7),
        (1, 1.2, 1.4, 1.6, 1.8, 2, 2.3, 2.6, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9),
    ):
        ticks = [
            step * 10.0**decade
            for decade in decades
            for step in steps
            if low <= step * 10.0**decade <= high
        ]
        if len(ticks) >= 4:
            return ticks[:: math.ceil(len(ticks) / 9)]
    return ticks

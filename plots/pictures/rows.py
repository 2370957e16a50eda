"""Charts with a row per trial: names at their left, one below the other, as high as their lines
need.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from analysis.results import Result
from plots.pictures.axes import log_ticks
from plots.pictures.lettering import height_in, width_in, wrapped
from plots.pictures.sheet import MARGIN_IN, Sheet
from plots.pictures.theme import SMALL_PT

BAR_IN = 0.13  # height of a bar in its row
HATCHES = ("", "/////", "...", "xxxx", "-----", "\\\\\\\\\\", "++++", "oo")
"""Tell neighbors apart in grey, in this order."""
_NAME_IN = 1.35  # at most
_BETWEEN_IN = 0.12  # names and their axes; lines of two rows
_RIGHT_IN = 0.2  # for half of the last number below
_PRESSED = 8  # the largest value, so many times the smallest, would press the others together


def row_name(result: Result) -> str:
    """Return as `ps_cpu x 4`, `distributed_ring x 8 over 2 hosts`."""
    return wrapped(f"{result.strategy} x {result.width}", SMALL_PT, _NAME_IN)


def left_in(names: Sequence[str]) -> float:
    """Return the room that names need at the left of their axes."""
    return MARGIN_IN + max(width_in(name, SMALL_PT) for name in names) + _BETWEEN_IN


def centers_in(names: Sequence[str], least_in: float = 0.2) -> list[float]:
    """Return the centers of the rows, from the top of the axes down: y is in inches, and a row is
    as high as its name needs.
    """
    heights = _heights_in(names, least_in)
    return [sum(heights[:index]) + height / 2 for index, height in enumerate(heights)]


def rows_in(names: Sequence[str], least_in: float = 0.2) -> float:
    """Return the height of axes with a row for each."""
    return sum(_heights_in(names, least_in))


def _heights_in(names: Sequence[str], least_in: float) -> list[float]:
    return [max(least_in, height_in(name, SMALL_PT) + 0.05) for name in names]


def name_rows(axes: Axes, names: Sequence[str], least_in: float = 0.2) -> None:
    """Write the names at the left of their rows."""
    axes.yaxis.set_major_locator(FixedLocator(centers_in(names, least_in)))
    axes.yaxis.set_major_formatter(FixedFormatter(names))
    axes.set_ylim(rows_in(names, least_in), 0)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def beside(
    sheet: Sheet, height_in: float, left_in: float, between_in: float, shares: Sequence[float]
) -> list[Axes]:
    """Add axes side by side, which share the width that labels leave; `between_in` is for labels,
    too.
    """
    free_in = sheet.width_in - left_in - _RIGHT_IN - between_in * (len(shares) - 1)
    found = []
    for index, share in enumerate(shares):
        before_in = left_in + index * between_in + free_in * sum(shares[:index]) / sum(shares)
        wide_in = free_in * share / sum(shares)
        found.append(sheet.axes(height_in, before_in, sheet.width_in - before_in - wide_in))
        sheet.gap(-height_in)
    sheet.gap(height_in)
    return found


def scale_x(axes: Axes, values: Sequence[float]) -> None:
    """Begin at 0, or make it logarithmic where the largest would press the others together."""
    low, high = min(values), max(values)
    if low > 0 and high > _PRESSED * low:
        ticks = log_ticks(low / 1.15, high * 1.15)
        ticks = ticks[:: -(-len(ticks) // 5)]
        axes.set_xscale("log")
        axes.set_xlim(low / 1.15, high * 1.15)
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(FixedFormatter([f"{tick:,g}" for tick in ticks]))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.set_xlim(0, 1.05 * high or 1)
        axes.xaxis.set_major_locator(MaxNLocator(5))

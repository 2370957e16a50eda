"""What stands at the right ends of lines: their names, moved apart, and bars of the last values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.markers import CARETRIGHT
from matplotlib.patches import ConnectionPatch
from matplotlib.transforms import ScaledTranslation, Transform, offset_copy

from plots.pictures.lettering import height_in, width_in, wrapped
from plots.pictures.sheet import MARGIN_IN, Sheet
from plots.pictures.theme import FOOTER_PT, SMALL_PT

BARS_IN = 1.5  # of the bars with their numbers
_NAME_IN = 1.35  # at most
_TALLEST_IN = 3.8  # of all names: more of them become a legend
_MARKER_IN, _AWAY_IN = 0.14, 0.16  # before a name; between the axes and the markers
_BETWEEN_IN = 0.02  # two names
_BAR_IN = 0.1
_FARTHEST = 1.25  # an interval is drawn to so many times its value


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The last point of a line."""

    name: str
    at: float | None  # of the point, None of a line without any
    value: float | None
    style: dict[str, Any]  # of the line; without a marker of the ideal one
    bar: Bar | None = None  # beside the name; None where the line has none


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a line has at the last of all counts."""

    text: str  # the value, or why there is none
    value: float | None = None
    low: float | None = None  # 95 % CI
    high: float | None = None

    @property
    def end(self) -> float:
        """Return where the bar and its interval end; one far wider is cut off."""
        value = self.value or 0.0
        return max(value, min(self.high or 0.0, _FARTHEST * value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The names beside axes, as far as they fit there."""

    names: Sequence[str]  # broken into lines; empty where a legend has them
    heights_in: Sequence[float]
    width_in: float

    @property
    def is_named(self) -> bool:
        return any(self.names)

    @property
    def height_in(self) -> float:
        return sum(self.heights_in) + 2 * _BETWEEN_IN


def column(names: Sequence[str]) -> Column:
    """Make room for the names, or for the markers alone where the names would be too tall."""
    lines = [wrapped(name, SMALL_PT, _NAME_IN) for name in names]
    heights_in = [height_in(line, SMALL_PT) + _BETWEEN_IN for line in lines]
    if sum(heights_in) > _TALLEST_IN:
        lines = [""] * len(names)
        heights_in = [height_in("", SMALL_PT) + _BETWEEN_IN] * len(names)
    widest_in = max((width_in(line, SMALL_PT) for line in lines), default=0.0)
    return Column(
        names=lines, heights_in=heights_in, width_in=_AWAY_IN + _MARKER_IN + widest_in + MARGIN_IN
    )


def draw_ends(
    sheet: Sheet, axes: Axes, ends: Sequence[End], of: Column, wanted_in: Sequence[float]
) -> list[float]:
    """Write each name as near as possible to where it is wanted, in inches above the bottom of the
    axes, and lead the line to it. Return where the names are.
    """
    places_in = apart(wanted_in, of.heights_in, axes_height_in(sheet, axes))
    figure = sheet.figure
    # in inches from the lower right corner of the axes
    corner = ScaledTranslation(1, 0, axes.transAxes)  # type: ignore[arg-type] # any will do
    beside = figure.dpi_scale_trans + corner
    for end, name, place_in in zip(ends, of.names, places_in, strict=True):
        _lead(sheet, axes, end, beside, place_in)
        look = {**end.style, "linestyle": "", "transform": beside, "label": "_end"}
        figure.add_artist(Line2D([_AWAY_IN], [place_in], **look))
        figure.text(
            _AWAY_IN + _MARKER_IN * 0.75,
            place_in,
            name,
            transform=beside,
            fontsize=SMALL_PT,
            color=sheet.palette.ink,
            va="center_baseline" if "\n" not in name else "center",
            linespacing=1.1,
        )
    return places_in


def axes_height_in(sheet: Sheet, axes: Axes) -> float:
    return next(tall_in for own, _, tall_in, *_ in sheet.placed if own is axes)


def _lead(sheet: Sheet, axes: Axes, end: End, beside: Transform, place_in: float) -> None:
    """Draw a thin line from the last point to its name."""
    if end.at is None or end.value is None:
        return
    line = ConnectionPatch(
        xyA=(end.at, end.value),
        coordsA=axes.transData,
        xyB=(_AWAY_IN - 0.05, place_in),
        coordsB=beside,
        color=end.style["color"],
        linewidth=0.6,
        linestyle=":",
        shrinkA=3,
        zorder=1.2,
    )
    sheet.figure.add_artist(line)


def draw_bars(
    sheet: Sheet, axes: Axes, ends: Sequence[End], places_in: Sequence[float], headline: str
) -> None:
    """Draw bars from 0 at the heights of the names, each with its number."""
    sheet.figure.text(
        0,
        1,
        headline,
        transform=offset_copy(axes.transAxes, sheet.figure, 0, 0.04),
        fontsize=SMALL_PT,
        va="bottom",
        color=sheet.palette.ink,
    )
    bars = [end.bar for end in ends if end.bar is not None]
    reach = max((bar.end for bar in bars), default=0.0) or 1.0
    texts_in = max(width_in(bar.text, FOOTER_PT) for bar in bars)
    axes.set_xlim(0, reach * BARS_IN / (BARS_IN - texts_in - 0.08))
    axes.set_ylim(0, axes_height_in(sheet, axes))
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)
    for end, place_in in zip(ends, places_in, strict=True):
        if end.bar is not None:
            _bar(sheet, axes, end, end.bar, place_in)


def _bar(sheet: Sheet, axes: Axes, end: End, bar: Bar, place_in: float) -> None:
    if bar.value is not None:
        axes.barh([place_in], [bar.value], height=_BAR_IN, color=end.style["color"], label=end.name)
        if bar.low is not None:
            look: dict[str, Any] = {"color": sheet.palette.ink, "linewidth": 0.8, "gid": "interval"}
            axes.plot([bar.low, bar.end], [place_in, place_in], **look)
            if bar.high is not None and bar.high > bar.end:
                arrow: dict[str, Any] = {"marker": CARETRIGHT, "markersize": 4, "gid": "beyond"}
                axes.plot([bar.end], [place_in], color=sheet.palette.ink, **arrow)
    axes.text(
        bar.end,
        place_in,
        bar.text,
        transform=offset_copy(axes.transData, sheet.figure, 0.04, 0),
        fontsize=FOOTER_PT,
        color=sheet.palette.ink,
        va="center_baseline",
    )


def apart(wanted_in: Sequence[float], heights_in: Sequence[float], within_in: float) -> list[float]:
    """Return centers as near as possible to those wanted, in their order, so that none of these
    heights overlap and all lie between 0 and `within_in`, where that has room for them.

    Neighbors that would overlap stand around their middle: the pooling of isotonic regression.
    """
    order = sorted(range(len(wanted_in)), key=lambda index: wanted_in[index])
    above_first = [0.0]
    for lower, upper in pairwise(order):
        above_first.append(above_first[-1] + (heights_in[lower] + heights_in[upper]) / 2)
    pools: list[tuple[float, int]] = []  # the middle of some neighbors, as if they had no height
    for index, above in zip(order, above_first, strict=True):
        middle, num = wanted_in[index] - above, 1
        while pools and pools[-1][0] > middle:
            other, num_others = pools.pop()
            middle = (middle * num + other * num_others) / (num + num_others)
            num += num_others
        pools.append((middle, num))
    middles = [middle for middle, num in pools for _ in range(num)]
    places = [0.0] * len(wanted_in)
    for index, above, middle in zip(order, above_first, middles, strict=True):
        highest = within_in - heights_in[order[-1]] / 2 - above_first[-1]
        lowest = heights_in[order[0]] / 2
        places[index] = max(lowest, min(middle, highest)) + above
    return places

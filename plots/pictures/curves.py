"""Values against GPU counts: a curve per strategy with its intervals, and failures at the foot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, cast

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETUP
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from matplotlib.transforms import offset_copy

from plots.pictures.lettering import width_in
from plots.pictures.points import Failure, Point
from plots.pictures.sheet import MARGIN_IN, Sheet
from plots.pictures.theme import FOOTER_PT, SMALL_PT, Palette

HEIGHT_IN = 2.5  # of the part with the curves
# for the labels of the y axis; between the frame and the first and last GPU count
_LEFT_IN, _SIDE_IN = 0.58, 0.36
_ROW_IN = 0.15  # of the foot
_BAR_ROOM = 1.25  # the axis makes room for bars that reach so many times the value


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One strategy."""

    name: str
    points: tuple[Point, ...]
    failures: tuple[Failure, ...] = ()
    look: int  # its number, see plots.looks


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideal:
    """The line of perfect scaling."""

    name: str
    values: tuple[tuple[int, float], ...]  # GPU count and value


class Values(StrEnum):
    """The quantity along the y axis."""

    AMOUNT = "amount"
    RATIO = "ratio"
    SHARE = "share"  # in percent, always from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """The y axis, without the foot."""

    is_log: bool
    bottom: float
    top: float
    ticks: Sequence[float]
    names: Sequence[str]  # of the ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """The x axis."""

    is_log: bool
    first: int
    pitch_in: float  # of a doubling, or of one GPU

    def at(self, count: int) -> float:
        """Return the distance from the first count, in inches."""
        steps = math.log2(count / self.first) if self.is_log else count - self.first
        return self.pitch_in * steps


def draw_curves(
    sheet: Sheet,
    curves: Sequence[Curve],
    ideal: Ideal | None,
    y: Values,
    x_label: str,
    *,
    with_legend: bool = True,
) -> list[str]:
    """Draw axes, and the legend below them. Return lines that the footer must have."""
    points = [point for curve in curves for point in curve.points]
    counts = {point.at for point in points}
    counts.update(failure.at for curve in curves for failure in curve.failures)
    gpus = sorted(counts)
    values = list(_reach(points))
    if ideal is not None:
        values += [value for _, value in ideal.values]
    is_log = y is not Values.SHARE and _x(gpus, sheet.inner_in - _LEFT_IN).is_log
    shown = _range(y, values, is_log=is_log)
    names_in = max(width_in(name, SMALL_PT) for name in shown.names)
    left_in = max(_LEFT_IN, MARGIN_IN + names_in + 0.08)
    x = _x(gpus, sheet.width_in - left_in - MARGIN_IN)
    failing = [curve for curve in curves if curve.failures]
    foot_in = len(failing) * _ROW_IN
    axes = sheet.axes(HEIGHT_IN + foot_in, left_in)
    _x_axis(axes, gpus, x, x_label)
    _y_axis(axes, shown, foot_in)
    handles: list[Artist] = [_curve(axes, curve, shown, sheet.palette) for curve in curves]
    names = [curve.name for curve in curves]
    if ideal is not None:
        style: dict[str, Any] = {
            "linestyle": (0, (1, 1.5)),
            "color": sheet.palette.faint,
            "zorder": 1.5,
        }
        handles += axes.plot(*zip(*ideal.values, strict=True), label=ideal.name, **style)
        names.append(ideal.name)
    for row, curve in enumerate(failing):
        look = sheet.palette.style(curve.look)
        _failures(axes, curve, look, foot_in - (row + 0.5) * _ROW_IN, x)
    if failing:
        height = foot_in / (HEIGHT_IN + foot_in)
        band = Rectangle((0, 0), 1, height, transform=axes.transAxes, zorder=0.6)
        band.set_facecolor(sheet.palette.tint(sheet.palette.faint, 0.12))
        axes.add_patch(band)
    sheet.gap(0.45)
    if with_legend:
        sheet.legend(handles, names)
    for point in points:
        if point.low is None or point.high is None:
            continue
        if point.low < shown.bottom or point.high > shown.top:
            return ["arrowheads: the interval reaches beyond the picture"]
    return []


def _curve(axes: Axes, curve: Curve, shown: _Range, palette: Palette) -> Artist:
    """Draw the line, its error bars, hollow markers over what is not to be quoted, and rings around
    what lacks repeats.
    """
    points, style = sorted(curve.points, key=lambda point: point.at), palette.style(curve.look)
    (line,) = axes.plot(*_coordinates(points), label=curve.name, **style)
    _bars(axes, points, shown, style["color"])
    hollow = {
        "marker": style["marker"],
        "markeredgecolor": style["color"],
        "markerfacecolor": palette.ground,
        "label": "_suspect",
    }
    ring = {
        "marker": "o",
        "markersize": 9,
        "markerfacecolor": "none",
        "markeredgecolor": palette.ink,
        "markeredgewidth": 0.8,
        "label": "_partly",
    }
    suspect = [point for point in points if not point.is_valid]
    partly = [point for point in points if not point.is_whole]
    for marked, look in ((suspect, hollow), (partly, ring)):
        if marked:
            axes.plot(*_coordinates(marked), linestyle="", zorder=3, **look)
    return line


def _coordinates(points: Sequence[Point]) -> tuple[list[int], list[float]]:
    return [point.at for point in points], [point.value for point in points]


def _bars(axes: Axes, points: Sequence[Point], shown: _Range, color: str) -> None:
    """Draw intervals as far as the picture reaches, with an arrowhead where they reach further."""
    for point in points:
        if point.low is None or point.high is None:
            continue
        below = max(0.0, point.value - max(point.low, shown.bottom))
        above = max(0.0, min(point.high, shown.top) - point.value)
        bar: dict[str, Any] = {"ecolor": color, "elinewidth": 1, "capsize": 2, "label": "_bars"}
        axes.errorbar([point.at], [point.value], yerr=[[below], [above]], fmt="none", **bar)
        arrow: dict[str, Any] = {"markersize": 5, "color": color, "clip_on": False}
        if point.low < shown.bottom:
            axes.plot([point.at], [shown.bottom], marker=CARETDOWN, label="_beyond", **arrow)
        if point.high > shown.top:
            axes.plot([point.at], [shown.top], marker=CARETUP, label="_beyond", **arrow)


def _failures(
    axes: Axes, curve: Curve, style: dict[str, Any], above_bottom_in: float, x: _Scale
) -> None:
    """Draw a row of the foot: the strategy's marker at its left, and each symbol at its GPU count,
    or a cross where symbols would touch.
    """
    figure = cast(Figure, axes.figure)
    left = offset_copy(axes.transAxes, figure, 0.1, above_bottom_in)
    own = {"marker": style["marker"], "color": style["color"], "linestyle": ""}
    axes.plot([0], [0], transform=left, label="_failing", **own)
    where = offset_copy(axes.get_xaxis_transform(), figure, 0, above_bottom_in)
    named = _with_room(
        {one.at: width_in(one.symbol, FOOTER_PT) + 0.04 for one in curve.failures}, x
    )
    centered: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": FOOTER_PT}
    for one in curve.failures:
        if one.at in named:
            axes.text(one.at, 0, one.symbol, transform=where, **centered)
        else:
            ink = matplotlib.rcParams["text.color"]
            axes.plot([one.at], [0], "x", transform=where, color=ink, markersize=3)


def _x(gpus: Sequence[int], width_in: float) -> _Scale:
    """Return a logarithmic axis, where 1, 2, 4, 8 stand evenly and 64 has its place, or one of true
    distances where that parts the counts better.
    """
    if len(gpus) == 1:
        return _Scale(is_log=True, first=gpus[0], pitch_in=width_in)
    within_in = width_in - 2 * _SIDE_IN
    in_log = _Scale(is_log=True, first=gpus[0], pitch_in=within_in / math.log2(gpus[-1] / gpus[0]))
    even = _Scale(is_log=False, first=gpus[0], pitch_in=within_in / (gpus[-1] - gpus[0]))
    return max(
        in_log,
        even,
        key=lambda scale: min(scale.at(right) - scale.at(left) for left, right in pairwise(gpus)),
    )


def _x_axis(axes: Axes, gpus: Sequence[int], x: _Scale, label: str) -> None:
    side = _SIDE_IN / x.pitch_in if len(gpus) > 1 else 1.0
    if x.is_log:
        axes.set_xscale("log", base=2)
        axes.set_xlim(gpus[0] / 2**side, gpus[-1] * 2**side)
    else:
        axes.set_xlim(gpus[0] - side, gpus[-1] + side)
    shown = _with_room({count: width_in(str(count), SMALL_PT) + 0.04 for count in gpus}, x)
    axes.xaxis.set_major_locator(FixedLocator(gpus))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(
        FixedFormatter([str(count) if count in shown else "" for count in gpus])
    )
    axes.set_xlabel(label)


def _with_room(widths_in: dict[int, float], x: _Scale) -> set[int]:
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


def _reach(points: Sequence[Point]) -> Iterator[float]:
    """Yield what the axis must reach: points and narrow bars. The interval of two processes may
    reach to twenty times the value, and would press the curves together.
    """
    for point in points:
        yield point.value
        if point.low is not None and point.high is not None:
            yield max(point.low, point.value / _BAR_ROOM)
            yield min(point.high, point.value * _BAR_ROOM)


def _range(y: Values, values: Sequence[float], *, is_log: bool) -> _Range:
    """Make it logarithmic where the x axis is, so that perfect scaling is a straight line."""
    if is_log:
        low, high = math.log(min(values)), math.log(max(values))
        reach = 0.56 * max(high - low, math.log(2))
        bottom, top = math.exp((low + high) / 2 - reach), math.exp((low + high) / 2 + reach)
        ticks = log_ticks(bottom, top, octaves=y is Values.RATIO)
    else:
        least_top = 1.0 if y is Values.SHARE else 0.0
        bottom, top = 0.0, 1.08 * max(least_top, *values)
        ticks = even_ticks(top)
    if y is Values.SHARE:
        names = [f"{100 * tick:.0f} %" for tick in ticks]
    else:
        names = [f"{tick:,.0f}" if tick >= 100 else f"{tick:.3g}" for tick in ticks]
    return _Range(is_log=is_log, bottom=bottom, top=top, ticks=ticks, names=names)


def _y_axis(axes: Axes, shown: _Range, foot_in: float) -> None:
    """Leave room for the foot below the values."""
    share = foot_in / HEIGHT_IN  # of what the values have
    if shown.is_log:
        axes.set_yscale("log")
        axes.set_ylim(shown.bottom * (shown.bottom / shown.top) ** share, shown.top)
    else:
        axes.set_ylim(-shown.top * share, shown.top)
    axes.yaxis.set_major_locator(FixedLocator(shown.ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FixedFormatter(shown.names))


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

"""Values against GPU counts: a curve per strategy with its intervals, and what failed at the foot,
where it failed.
"""

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
    failures: tuple[Failure, ...]
    look: int  # its number, see plots.looks


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideal:
    """What perfect scaling would give."""

    name: str
    values: tuple[tuple[int, float], ...]  # GPU count and value


class Values(StrEnum):
    """What lies along the y axis."""

    AMOUNT = "amount"
    RATIO = "ratio"
    SHARE = "share"  # in percent, always from 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """Of the y axis, without the foot."""

    is_log: bool
    bottom: float
    top: float
    ticks: Sequence[float]
    names: Sequence[str]  # of the ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Of the x axis."""

    is_log: bool
    first: int
    pitch_in: float  # of a doubling, or of one GPU

    def at(self, count: int) -> float:
        """Inches from the first count."""
        return self.pitch_in * (
            math.log2(count / self.first) if self.is_log else count - self.first
        )


def draw_curves(
    sheet: Sheet,
    curves: Sequence[Curve],
    ideal: Ideal | None,
    y: Values,
    x_label: str,
    *,
    with_legend: bool = True,
) -> list[str]:
    """On the sheet: axes, and the legend below them. What the footer must say of the bars."""
    counts = sorted(
        {point.at for of in curves for point in of.points}
        | {one.at for of in curves for one in of.failures}
    )
    values = [*_reach(curves), *(value for _, value in (ideal.values if ideal else ()))]
    is_log = y is not Values.SHARE and _x(counts, sheet.inner_in - _LEFT_IN).is_log
    shown = _range(y, values, is_log=is_log)
    left_in = max(
        _LEFT_IN, MARGIN_IN + max(width_in(name, SMALL_PT) for name in shown.names) + 0.08
    )
    x = _x(counts, sheet.width_in - left_in - MARGIN_IN)
    failing = [of for of in curves if of.failures]
    is_narrow = any(_is_narrow(x, of.failures) for of in curves)
    row_in = _ROW_IN if not is_narrow else max(_symbol_in(of.failures) for of in curves) + 0.08
    foot_in = len(failing) * row_in
    axes = sheet.axes(HEIGHT_IN + foot_in, left_in)
    _x_axis(axes, counts, x, x_label)
    _y_axis(axes, shown, foot_in)
    handles: list[Artist] = [_curve(axes, curve, shown, sheet.palette) for curve in curves]
    if ideal is not None:
        xs, ys = zip(*ideal.values, strict=True)
        handles += axes.plot(
            xs, ys, linestyle=(0, (1, 1.5)), color=sheet.palette.faint, zorder=1.5, label=ideal.name
        )
    for row, curve in enumerate(failing):
        marker = sheet.palette.style(curve.look)
        _failures(axes, curve, marker, foot_in - (row + 0.5) * row_in, x, is_narrow=is_narrow)
    if failing:
        band = Rectangle(
            (0, 0), 1, foot_in / (HEIGHT_IN + foot_in), transform=axes.transAxes, zorder=0.6
        )
        band.set_facecolor(sheet.palette.tint(sheet.palette.faint, 0.12))
        axes.add_patch(band)
    sheet.gap(0.45)
    if with_legend:
        sheet.legend(handles, [*(of.name for of in curves), *([ideal.name] if ideal else [])])
    is_clipped = any(_is_beyond(point, shown) for of in curves for point in of.points)
    return ["arrowheads: the interval reaches beyond the picture"] if is_clipped else []


def _curve(axes: Axes, curve: Curve, shown: _Range, palette: Palette) -> Artist:
    """The line, its error bars, hollow markers over what is not to be quoted, and rings around what
    lacks repeats.
    """
    points, style = sorted(curve.points, key=lambda point: point.at), palette.style(curve.look)
    (line,) = axes.plot(
        [point.at for point in points], [point.value for point in points], label=curve.name, **style
    )
    _bars(axes, points, shown, style["color"])
    suspect = [point for point in points if not point.is_valid]
    if suspect:
        hollow = {
            "marker": style["marker"],
            "linestyle": "",
            "markeredgecolor": style["color"],
            "markerfacecolor": palette.ground,
        }
        axes.plot(
            [point.at for point in suspect],
            [point.value for point in suspect],
            label="_suspect",
            zorder=3,
            **hollow,
        )
    partly = [point for point in points if not point.is_whole]
    if partly:
        ring: dict[str, Any] = {
            "marker": "o",
            "markersize": 9,
            "markerfacecolor": "none",
            "markeredgecolor": palette.ink,
            "markeredgewidth": 0.8,
        }
        at = [point.at for point in partly], [point.value for point in partly]
        axes.plot(*at, linestyle="", label="_partly", zorder=3, color=palette.ink, **ring)
    return line


def _bars(axes: Axes, points: Sequence[Point], shown: _Range, color: str) -> None:
    """As far as the picture reaches; an arrowhead where they reach further."""
    known = [
        (point, point.low, point.high)
        for point in points
        if point.low is not None and point.high is not None
    ]
    if not known:
        return
    below = [max(0.0, point.value - max(low, shown.bottom)) for point, low, _ in known]
    above = [max(0.0, min(high, shown.top) - point.value) for point, _, high in known]
    at = [point.at for point, *_ in known], [point.value for point, *_ in known]
    axes.errorbar(
        *at, yerr=[below, above], fmt="none", ecolor=color, elinewidth=1, capsize=2, label="_bars"
    )
    down = [point.at for point, low, _ in known if low < shown.bottom]
    up = [point.at for point, _, high in known if high > shown.top]
    for clipped, edge, arrow in ((down, shown.bottom, CARETDOWN), (up, shown.top, CARETUP)):
        if clipped:
            style: dict[str, Any] = {
                "marker": arrow,
                "markersize": 5,
                "color": color,
                "linestyle": "",
                "clip_on": False,
            }
            axes.plot(clipped, [edge] * len(clipped), label="_beyond", **style)


def _is_beyond(point: Point, shown: _Range) -> bool:
    return (
        point.low is not None
        and point.high is not None
        and (point.low < shown.bottom or point.high > shown.top)
    )


def _failures(
    axes: Axes,
    curve: Curve,
    style: dict[str, Any],
    above_bottom_in: float,
    x: _Scale,
    *,
    is_narrow: bool,
) -> None:
    """A row of the foot: the strategy's marker at its left, and each symbol at its GPU count."""
    figure = cast(Figure, axes.figure)
    left = offset_copy(axes.transAxes, figure, 0.1, above_bottom_in)
    axes.plot(
        [0],
        [0],
        marker=style["marker"],
        color=style["color"],
        linestyle="",
        transform=left,
        label="_failing",
    )
    where = offset_copy(axes.get_xaxis_transform(), figure, 0, above_bottom_in)
    every = {one.at: 0.12 for one in curve.failures}
    named = _with_room(every, x) if is_narrow else set(every)
    for one in curve.failures:
        if one.at in named:
            va, rotation = ("center", 90) if is_narrow else ("center_baseline", 0)
            axes.text(
                one.at,
                0,
                one.symbol,
                transform=where,
                ha="center",
                va=va,
                rotation=rotation,
                fontsize=FOOTER_PT,
            )
        else:
            axes.plot(
                [one.at],
                [0],
                "x",
                transform=where,
                color=matplotlib.rcParams["text.color"],
                markersize=3,
            )


def _x(gpus: Sequence[int], width_in: float) -> _Scale:
    """Logarithmic, where 1, 2, 4, 8 stand evenly and 64 has its place; true distances where that
    parts the counts better.
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
    """The counts whose labels, of these widths, fit side by side: powers of two first."""
    placed: list[tuple[float, float]] = []
    shown = set()
    for count in sorted(widths_in, key=lambda count: (count & (count - 1) != 0, -count)):
        left, right = x.at(count) - widths_in[count] / 2, x.at(count) + widths_in[count] / 2
        if all(right <= other_left or left >= other_right for other_left, other_right in placed):
            placed.append((left, right))
            shown.add(count)
    return shown


def _is_narrow(x: _Scale, failures: Sequence[Failure]) -> bool:
    """Whether two neighboring symbols of a row would touch."""
    ends = [
        (x.at(one.at), width_in(one.symbol, FOOTER_PT) / 2 + 0.02)
        for one in sorted(failures, key=lambda one: one.at)
    ]
    return any(left + half > right - other for (left, half), (right, other) in pairwise(ends))


def _symbol_in(failures: Sequence[Failure]) -> float:
    return max((width_in(one.symbol, FOOTER_PT) for one in failures), default=0.0)


def _reach(curves: Sequence[Curve]) -> Iterator[float]:
    """Of points and of narrow bars: the interval of two processes may reach to twenty times the
    value, and would press the curves together.
    """
    for point in (point for of in curves for point in of.points):
        yield point.value
        if point.low is not None and point.high is not None:
            yield max(point.low, point.value / _BAR_ROOM)
            yield min(point.high, point.value * _BAR_ROOM)


def _range(y: Values, values: Sequence[float], *, is_log: bool) -> _Range:
    """Logarithmic where the x axis is: perfect scaling is a straight line then, too."""
    if is_log:
        low, high = math.log(min(values)), math.log(max(values))
        reach = 0.56 * max(high - low, math.log(2))
        bottom, top = math.exp((low + high) / 2 - reach), math.exp((low + high) / 2 + reach)
        ticks = log_ticks(bottom, top, octaves=y is Values.RATIO)
    else:
        bottom, top = 0.0, 1.08 * max([*values, *([1.0] if y is Values.SHARE else [])])
        ticks = even_ticks(top)
    names = [f"{100 * tick:.0f} %" if y is Values.SHARE else _number(tick) for tick in ticks]
    return _Range(is_log=is_log, bottom=bottom, top=top, ticks=ticks, names=names)


def _y_axis(axes: Axes, shown: _Range, foot_in: float) -> None:
    """The values fill what the foot leaves."""
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
    """Round numbers from 0 to the end, four to nine of them."""
    decade = 10.0 ** math.floor(math.log10(end))
    step = next(step * decade for step in (0.1, 0.2, 0.5, 1.0, 2.0) if end / (step * decade) < 8.5)
    return [index * step for index in range(int(end / step) + 1)]


def log_ticks(low: float, high: float, *, octaves: bool = False) -> list[float]:
    """Round numbers between, four to nine of them; `octaves`: preferably powers of two."""
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


def _number(value: float) -> str:
    """Of a tick, which is a round number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

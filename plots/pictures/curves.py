"""Values against GPU counts: a curve per strategy with its intervals, and failures at the foot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETUP
from matplotlib.patches import Rectangle
from matplotlib.transforms import ScaledTranslation, Transform, offset_copy

from analysis.text.numbers import number
from plots.pictures.axes import Range, Scale, Values, draw_x, draw_y, with_room, x_scale, y_range
from plots.pictures.footer import BARS, CUT
from plots.pictures.lettering import width_in
from plots.pictures.line_ends import (
    BARS_IN,
    Bar,
    End,
    column,
    draw_bars,
    draw_ends,
)
from plots.pictures.points import Failure, Point
from plots.pictures.sheet import MARGIN_IN, Sheet
from plots.pictures.theme import FOOTER_PT, SMALL_PT, Palette
from plots.tables.cells import NOT_RUN

HEIGHT_IN = 2.5  # of the part with the curves
_LEFT_IN = 0.58  # for the labels of the y axis
_ROW_IN = 0.15  # of the foot
_BAR_ROOM = 1.25  # the axis makes room for bars that reach so many times the value
_ASIDE_PT, _MOST_ASIDE_PT = 1.8, 10.0  # between two curves; between the first and the last


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


def draw_curves(
    sheet: Sheet,
    curves: Sequence[Curve],
    ideal: Ideal | None,
    y: Values,
    x_label: str,
    *,
    is_log: bool,
    last: str = "",
    with_names: bool = True,
) -> list[str]:
    """Draw axes with the curves, and their names at their ends, or in a legend below where they are
    too long for that; `last` is the headline of bars of the values at the last count beside them.
    Return what the marks mean.
    """
    points = [point for curve in curves for point in curve.points]
    counts = {point.at for point in points}
    counts.update(failure.at for curve in curves for failure in curve.failures)
    gpus = sorted(counts)
    ideals = [value for _, value in ideal.values] if ideal is not None else []
    is_log_y = is_log and y is not Values.SHARE and len(gpus) > 1
    shown = y_range(y, list(_reach(points)), ideals, is_log=is_log_y)
    failing = [curve for curve in curves if curve.failures]
    foot_in = len(failing) * _ROW_IN
    names = [curve.name for curve in curves]
    is_whole = ideal is not None and ideal.values[-1][1] <= shown.top
    if ideal is not None and is_whole:
        names.append(ideal.name)
    beside = column(names) if with_names else None
    tall_in = HEIGHT_IN + foot_in
    if beside is not None:
        tall_in = max(tall_in, beside.height_in)
    names_in = max(width_in(name, SMALL_PT) for name in shown.names)
    left_in = max(_LEFT_IN, MARGIN_IN + names_in + 0.08)
    right_in = MARGIN_IN
    if beside is not None:
        right_in += beside.width_in
    if last:
        right_in += BARS_IN
    x = x_scale(gpus, sheet.width_in - left_in - right_in, is_log=is_log)
    sheet.gap(0.16 if last or (ideal is not None and not is_whole) else 0)
    axes = sheet.axes(tall_in, left_in, right_in)
    draw_x(axes, gpus, x, x_label)
    draw_y(axes, shown, foot_in / (tall_in - foot_in))
    handles = [
        _curve(axes, curve, shown, sheet.palette, _aside_pt(index, len(curves)))
        for index, curve in enumerate(curves)
    ]
    if ideal is not None:
        handles += _ideal(sheet, axes, ideal, shown)
    if failing:
        _foot(axes, failing, sheet.palette, x, foot_in / tall_in)
    if beside is not None:
        ends = [_end(curve, gpus[-1], y, sheet.palette) for curve in curves]
        if ideal is not None and is_whole:
            ends.append(_end_of(ideal, sheet.palette))
        wanted_in = [foot_in + shown.share(end.value) * (tall_in - foot_in) for end in ends]
        places_in = draw_ends(sheet, axes, ends, beside, wanted_in)
        if last:
            sheet.gap(-tall_in)
            bars = sheet.axes(tall_in, sheet.width_in - MARGIN_IN - BARS_IN, MARGIN_IN)
            draw_bars(sheet, bars, ends, places_in, last)
    sheet.gap(0.45)
    if beside is not None and not beside.is_named:
        sheet.legend(handles, [curve.name for curve in curves] + ([ideal.name] if ideal else []))
    return _marks(points, shown)


def _foot(axes: Axes, failing: Sequence[Curve], palette: Palette, x: Scale, share: float) -> None:
    """Draw a row of failures for each curve that has some, on a band of that share of the axes."""
    for row, curve in enumerate(failing):
        middle_in = (len(failing) - row - 0.5) * _ROW_IN
        _failures(axes, curve, palette.style(curve.look), middle_in, x)
    band = Rectangle((0, 0), 1, share, transform=axes.transAxes, zorder=0.6)
    band.set_facecolor(palette.tint(palette.faint, 0.12))
    axes.add_patch(band)


def _marks(points: Sequence[Point], shown: Range) -> list[str]:
    """Return what the marks among the points mean, but for hollow ones."""
    bars = [(point.low, point.high) for point in points if point.low is not None]
    found = [BARS] if bars else []
    if not all(point.is_whole for point in points):
        found.append("ringed: failures")
    if any(low < shown.bottom or (high or 0) > shown.top for low, high in bars):
        found.append(CUT)
    return found


def _aside_pt(index: int, num: int) -> float:
    """Return how far a curve stands aside of its counts, so that none hides another."""
    step_pt = min(_ASIDE_PT, _MOST_ASIDE_PT / num)
    return (index - (num - 1) / 2) * step_pt


def _ideal(sheet: Sheet, axes: Axes, ideal: Ideal, shown: Range) -> list[Artist]:
    """Draw the line, and its name above the axes where it leaves them."""
    found: list[Artist] = list(
        axes.plot(*zip(*ideal.values, strict=True), label=ideal.name, **_faint(sheet.palette))
    )
    if ideal.values[-1][1] > shown.top:
        above = axes.get_xaxis_transform() + ScaledTranslation(
            0, 0.03, sheet.figure.dpi_scale_trans
        )
        look: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": FOOTER_PT}
        at = _leaves_at(ideal, shown)
        sheet.figure.text(at, 1, ideal.name, transform=above, color=sheet.palette.faint, **look)
    return found


def _leaves_at(ideal: Ideal, shown: Range) -> float:
    """Return where the line leaves the axes at their top."""
    for (left, below), (right, above) in pairwise(ideal.values):
        if above > shown.top:
            part = (shown.share(shown.top) - shown.share(below)) / (
                shown.share(above) - shown.share(below)
            )
            if shown.is_log:
                return float(left * (right / left) ** part)
            return left + part * (right - left)
    return ideal.values[0][0]


def _faint(palette: Palette) -> dict[str, Any]:
    return {"linestyle": (0, (1, 1.5)), "color": palette.faint, "zorder": 1.5}


def _end(curve: Curve, last: int, y: Values, palette: Palette) -> End:
    """Return the end of a curve, with its bar at the last of all counts."""
    point = max(curve.points, key=lambda point: point.at, default=None)
    failure = next((one for one in curve.failures if one.at == last), None)
    bar = Bar(text=failure.symbol if failure else NOT_RUN)
    if point is not None and point.at == last:
        bar = Bar(text=_written(point.value, y), value=point.value, low=point.low, high=point.high)
    return End(
        name=curve.name,
        at=None if point is None else point.at,
        value=None if point is None else point.value,
        style=palette.style(curve.look),
        bar=bar,
    )


def _end_of(ideal: Ideal, palette: Palette) -> End:
    at, value = ideal.values[-1]
    return End(name=ideal.name, at=at, value=value, style=_faint(palette))


def _written(value: float, y: Values) -> str:
    """Return the number of a bar."""
    if y is Values.SHARE:
        return f"{100 * value:.0f} %"
    return f"{number(value)}x" if y is Values.RATIO else number(value)


def _curve(axes: Axes, curve: Curve, shown: Range, palette: Palette, aside_pt: float) -> Artist:
    """Draw the line, its error bars, hollow markers over what is not to be quoted, and rings around
    what lacks repeats.
    """
    points, style = sorted(curve.points, key=lambda point: point.at), palette.style(curve.look)
    figure = cast(Figure, axes.figure)
    aside = offset_copy(axes.transData, figure, aside_pt, 0, units="points")
    (line,) = axes.plot(*_coordinates(points), label=curve.name, transform=aside, **style)
    _bars(axes, points, shown, style["color"], aside)
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
            axes.plot(*_coordinates(marked), linestyle="", zorder=3, transform=aside, **look)
    return line


def _coordinates(points: Sequence[Point]) -> tuple[list[int], list[float]]:
    return [point.at for point in points], [point.value for point in points]


def _bars(axes: Axes, points: Sequence[Point], shown: Range, color: str, aside: Transform) -> None:
    """Draw intervals as far as the picture reaches, with an arrowhead where they reach further."""
    for point in points:
        if point.low is None or point.high is None:
            continue
        below = max(0.0, point.value - max(point.low, shown.bottom))
        above = max(0.0, min(point.high, shown.top) - point.value)
        bar: dict[str, Any] = {"ecolor": color, "elinewidth": 1, "capsize": 2, "label": "_bars"}
        bar["transform"] = aside
        axes.errorbar([point.at], [point.value], yerr=[[below], [above]], fmt="none", **bar)
        arrow: dict[str, Any] = {"markersize": 5, "color": color, "clip_on": False}
        arrow["transform"] = aside
        if point.low < shown.bottom:
            axes.plot([point.at], [shown.bottom], marker=CARETDOWN, label="_beyond", **arrow)
        if point.high > shown.top:
            axes.plot([point.at], [shown.top], marker=CARETUP, label="_beyond", **arrow)


def _failures(
    axes: Axes, curve: Curve, style: dict[str, Any], above_bottom_in: float, x: Scale
) -> None:
    """Draw a row of the foot: the strategy's marker at its left, and each symbol at its GPU count,
    or a cross where symbols would touch.
    """
    figure = cast(Figure, axes.figure)
    left = offset_copy(axes.transAxes, figure, 0.1, above_bottom_in)
    own = {"marker": style["marker"], "color": style["color"], "linestyle": ""}
    axes.plot([0], [0], transform=left, label="_failing", **own)
    where = offset_copy(axes.get_xaxis_transform(), figure, 0, above_bottom_in)
    named = with_room({one.at: width_in(one.symbol, FOOTER_PT) + 0.04 for one in curve.failures}, x)
    centered: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": FOOTER_PT}
    for one in curve.failures:
        if one.at in named:
            axes.text(one.at, 0, one.symbol, transform=where, **centered)
        else:
            ink = matplotlib.rcParams["text.color"]
            axes.plot([one.at], [0], "x", transform=where, color=ink, markersize=3)


def _reach(points: Sequence[Point]) -> Iterator[float]:
    """Yield what the axis must reach: points and narrow bars. The interval of two processes may
    reach to twenty times the value, and would press the curves together.
    """
    for point in points:
        yield point.value
        if point.low is not None and point.high is not None:
            yield max(point.low, point.value / _BAR_ROOM)
            yield min(point.high, point.value * _BAR_ROOM)

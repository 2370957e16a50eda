"""Draws what precision and XLA gain: throughput of each against fp32 without XLA, all else
equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from analysis.pivot import pivot
from analysis.results import Result
from analysis.tables.labels import Label
from analysis.tables.table import Table
from analysis.text.titles import headings
from plots.pictures.axes import log_ticks
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.footer import BARS, doubts
from plots.pictures.lettering import width_in
from plots.pictures.points import partly_failed, symbol
from plots.pictures.rows import left_in, name_rows, row_name, rows_in
from plots.pictures.sheet import MARGIN_IN, Sheet
from plots.pictures.theme import FOOTER_PT, Palette
from plots.source import Source
from scalemark.stats.welch import known_ratio_interval, typical

ABOUT = "gains of precision and XLA: throughput against fp32 without XLA, all else equal"

# published figures have the first alone, and name XLA in it: `mixed+XLA`
_VARIED_BY = ("precision", "xla", "loss_scale")
_BASE: Label = ("fp32", "off", "none")
_ROW_IN, _MARK_IN = 0.1, 0.12  # of a row: around its marks, and each of them
_SMALLEST_REACH = 1.1  # the axis shows at least that much to both sides of 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One precision against fp32 without XLA."""

    result: Result
    # of geometric means over processes, as `analysis compare` has it; None where it has no number
    ratio: float | None
    low: float | None  # 95 % CI; None where a side ran in a single process
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A strategy on so many GPUs, with all its gains."""

    base: Result
    gains: tuple[tuple[Label, Gain], ...]


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """Yield a picture per model, setting and machine that has such pairs."""
    varied_by = [axis for axis in _VARIED_BY if axis in source.results[0].axes]
    tables = pivot(source.results, varied_by, ("strategy", "num_gpus"))
    tables = [table for table in tables if _pairs(table)]
    if not tables:
        raise NothingToShow("no trial ran both with fp32 without XLA and otherwise, all else equal")
    for table, name in zip(tables, file_names(tables), strict=True):
        yield _picture(table, name, _pairs(table), palette)


def _variants(table: Table) -> list[Label]:
    return [row for row in table.rows if row != _BASE[: len(row)]]


def _pairs(table: Table) -> list[Pair]:
    """Return by strategy and number of GPUs those with a base and anything to compare with it."""
    found = []
    for column in table.columns:
        base = table.cells.get((_BASE[: len(table.rows_by)], column))
        if base is None or base.result.throughput is None:
            continue
        gains = []
        for row in _variants(table):
            if (row, column) in table.cells:
                gains.append((row, gain(table.cells[row, column].result, base.result)))
        if gains:
            found.append(Pair(base=base.result, gains=tuple(gains)))
    return found


def gain(result: Result, base: Result) -> Gain:
    """Compare with a base that has numbers above 0."""
    if not result.repeats:
        return Gain(result=result, ratio=None, low=None, high=None)
    ratio = typical(result.repeats) / typical(base.repeats)
    low, high = known_ratio_interval(result.repeats, base.repeats)
    return Gain(result=result, ratio=ratio, low=low, high=high)


def _picture(table: Table, name: str, pairs: Sequence[Pair], palette: Palette) -> Picture:
    variants = _variants(table)
    names = [row_name(pair.base) for pair in pairs]
    gains = [one for pair in pairs for _, one in pair.gains]
    symbols = [symbol(one.result) for one in gains if one.ratio is None]
    right_in = MARGIN_IN + max((width_in(text, FOOTER_PT) for text in symbols), default=0.1) + 0.15
    sheet = Sheet(palette)
    sheet.heading(*headings(table, "gains of precision and XLA"))
    sheet.text(f"strategy x number of {table.environment.devices}", color=palette.faint)
    row_in = _ROW_IN + _MARK_IN * len(variants)
    axes = sheet.axes(rows_in(names, row_in), left_in(names), right_in)
    name_rows(axes, names, row_in)
    axes.axvline(1, color=palette.ink, linewidth=1, zorder=1.5)
    handles = [_gains(axes, variant, pairs, variants, palette) for variant in variants]
    values = [value for one in gains for value in (one.ratio, one.low, one.high) if value]
    _x_axis(axes, values)
    sheet.gap(0.42)
    sheet.legend(handles, [_in_words(variant, variants) for variant in variants])
    about = ["bars: of the ratio, where both sides ran in two processes or more"]
    sides = [*(pair.base for pair in pairs), *(one.result for one in gains)]
    has_bars = any(one.low is not None for one in gains)
    return Picture(
        name=name,
        figure=sheet.finished(),
        results=table.results,
        marks=[*([BARS] if has_bars else []), *doubts(sides)],
        about=[*about, *partly_failed(table.results)],
    )


def _in_words(variant: Label, variants: Sequence[Label]) -> str:
    """Return as `fp16`, `fp32, XLA`, `fp16, XLA auto, loss_scale 128`, the loss scale only where it
    distinguishes two; a published one as its source names it.
    """
    if len(variant) == 1:
        return str(variant[0])
    precision, xla, loss_scale = variant
    words = [str(precision)]
    if xla != "off":
        words.append("XLA" if xla == "on" else f"XLA {xla}")
    if sum(other[:2] == variant[:2] for other in variants) > 1:
        words.append(f"loss_scale {loss_scale}")
    return ", ".join(words)


def _gains(
    axes: Axes, variant: Label, pairs: Sequence[Pair], variants: Sequence[Label], palette: Palette
) -> Artist:
    """Draw all of one variant, each in its own line of its row. Return its entry in the legend."""
    number = variants.index(variant)
    style = {**palette.style(number), "linestyle": ""}
    hollow = {"markerfacecolor": palette.ground, "markeredgecolor": style["color"]}
    offset_in = (number - (len(variants) - 1) / 2) * _MARK_IN
    points: list[tuple[float, float]] = []
    suspect: list[tuple[float, float]] = []
    for center_in, pair in zip(axes.get_yticks(), pairs, strict=True):
        found = dict(pair.gains).get(variant)
        if found is None:
            continue
        at = center_in + offset_in
        if found.ratio is None:
            _failure(axes, at, found.result, style, palette)
            continue
        if found.low is not None and found.high is not None:
            bar: dict[str, Any] = {"color": style["color"], "linewidth": 1.2, "gid": "interval"}
            axes.plot([found.low, found.high], [at, at], **bar)
        points.append((found.ratio, at))
        if not (found.result.is_valid and pair.base.is_valid):
            suspect.append((found.ratio, at))
    (line,) = axes.plot(*_coordinates(points), **style, zorder=2.5, gid=str(variant))
    axes.plot(*_coordinates(suspect), **style, **hollow, zorder=3, gid="suspect")
    return line


def _coordinates(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _failure(
    axes: Axes, at: float, result: Result, style: dict[str, Any], palette: Palette
) -> None:
    """Write the symbol at the right of its line, behind the marker of its variant."""
    inch = axes.figure.dpi_scale_trans
    beyond = axes.get_yaxis_transform() + ScaledTranslation(0.05, 0, inch)
    behind = beyond + ScaledTranslation(0.06, 0, inch)
    axes.plot([1], [at], transform=beyond, **style, clip_on=False, gid="failed")
    text: dict[str, Any] = {"va": "center_baseline", "fontsize": FOOTER_PT, "color": palette.ink}
    axes.text(1, at, symbol(result), transform=behind, **text)


def _x_axis(axes: Axes, ratios: Sequence[float]) -> None:
    """Make it logarithmic: half as fast and twice as fast are as far from 1."""
    low, high = min([1 / _SMALLEST_REACH, *ratios]), max([_SMALLEST_REACH, *ratios])
    reach = (high / low) ** 0.06
    ticks = log_ticks(low / reach, high * reach)
    axes.set_xscale("log")
    axes.set_xlim(low / reach, high * reach)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{tick:.3g}" for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("times fp32 without XLA")

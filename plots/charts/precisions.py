"""What precision and XLA gain: images/s of each against fp32 without XLA, all else equal."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from analysis.pivot import Label, Table, pivot
from analysis.results import Result
from analysis.text.titles import headings, in_doubt, table_notes
from plots.pictures.curves import log_ticks
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.lettering import width_in
from plots.pictures.points import partly_failed, symbol
from plots.pictures.rows import left_in, name_rows, row_name, rows_in
from plots.pictures.sheet import MARGIN_IN, Sheet
from plots.pictures.theme import FOOTER_PT, Palette
from plots.source import Source
from scalemark.stats.welch import known_ratio_interval

ABOUT = "gains of precision and XLA: images/s against fp32 without XLA, all else equal"

# published figures have the first alone, and name XLA in it: `mixed+XLA`
_VARIED_BY = ("precision", "xla", "loss_scale")
_BASE: Label = ("fp32", "off", "none")
_ROW_IN, _MARK_IN = 0.1, 0.12  # of a row: around its marks, and each of them
_SMALLEST_REACH = 1.1  # the axis shows at least that much to both sides of 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One precision against fp32 without XLA."""

    result: Result
    # of geometric means over processes, as store compare has it; None where it has no number
    ratio: float | None
    low: float | None  # 95 % interval; None where a side is one process alone
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A strategy on so many GPUs, with all its gains."""

    base: Result
    gains: tuple[tuple[Label, Gain], ...]


def draw(source: Source, palette: Palette) -> Iterator[Picture]:
    """A picture per model, setting and machine that has such pairs."""
    varied_by = [axis for axis in _VARIED_BY if axis in source.results[0].axes]
    tables = pivot(source.results, varied_by, ("strategy", "num_gpus"))
    found = [(table, pairs) for table in tables if (pairs := _pairs(table))]
    if not found:
        raise NothingToShow("no trial ran both with fp32 without XLA and otherwise, all else equal")
    for (table, pairs), name in zip(found, file_names([table for table, _ in found]), strict=True):
        yield _picture(table, name, pairs, palette)


def _pairs(table: Table) -> list[Pair]:
    """By strategy and number of GPUs, those with a base and anything to hold against it."""
    found = []
    variants = _variants(table)
    for column in table.columns:
        base = table.cells.get((_base(table), column))
        others = [
            (row, table.cells[row, column].result)
            for row in variants
            if (row, column) in table.cells
        ]
        if base is not None and others and base.result.throughput is not None:
            gains = tuple((row, gain(other, base.result)) for row, other in others)
            found.append(Pair(base=base.result, gains=gains))
    return found


def _base(table: Table) -> Label:
    return _BASE[: len(table.rows_by)]


def _variants(table: Table) -> list[Label]:
    return [row for row in table.rows if row != _base(table)]


def gain(result: Result, base: Result) -> Gain:
    """The base has numbers above 0."""
    if not result.repeats:
        return Gain(result=result, ratio=None, low=None, high=None)
    ratio = statistics.geometric_mean(result.repeats) / statistics.geometric_mean(base.repeats)
    low, high = known_ratio_interval(result.repeats, base.repeats)
    return Gain(result=result, ratio=ratio, low=low, high=high)


def _picture(table: Table, name: str, pairs: Sequence[Pair], palette: Palette) -> Picture:
    variants = _variants(table)
    names = [row_name(pair.base) for pair in pairs]
    failed = [symbol(one.result) for pair in pairs for _, one in pair.gains if one.ratio is None]
    right_in = MARGIN_IN + max((width_in(told, FOOTER_PT) for told in failed), default=0.1) + 0.15
    sheet = Sheet(palette)
    sheet.heading(*headings(table, "gains of precision and XLA"))
    sheet.text(f"strategy x number of {table.place.devices}", color=palette.faint)
    row_in = _ROW_IN + _MARK_IN * len(variants)
    axes = sheet.axes(rows_in(names, row_in), left_in(names), right_in)
    name_rows(axes, names, row_in)
    axes.axvline(1, color=palette.ink, linewidth=1, zorder=1.5)
    handles = [_gains(axes, variant, pairs, variants, palette) for variant in variants]
    _tell_failures(axes, pairs, variants, palette)
    _x_axis(
        axes,
        [
            value
            for pair in pairs
            for _, one in pair.gains
            for value in (one.ratio, one.low, one.high)
            if value
        ],
    )
    sheet.gap(0.42)
    sheet.legend(handles, [_variant(variant, variants) for variant in variants])
    bars = (
        "bars: 95 % intervals of the ratio, over processes; none where a side is one process alone"
    )
    return Picture(
        name=name,
        figure=sheet.finished(),
        about=[*table_notes(table), bars, *_suspects(pairs), *partly_failed(table.results)],
    )


def _suspects(pairs: Sequence[Pair]) -> list[str]:
    are_valid = [
        of.is_valid for pair in pairs for of in (pair.base, *(one.result for _, one in pair.gains))
    ]
    return [] if all(are_valid) else [f"hollow: a side is {in_doubt(pairs[0].base.place)}"]


def _variant(variant: Label, variants: Sequence[Label]) -> str:
    """As `fp16`, `fp32, XLA`, `fp16, XLA auto, loss_scale 128`: the loss scale where it tells two
    apart. As its source tells it where it was published.
    """
    if len(variant) == 1:
        return str(variant[0])
    precision, xla, loss_scale = variant
    told = [str(precision), *({"off": [], "on": ["XLA"]}.get(xla, [f"XLA {xla}"]))]
    if len([other for other in variants if other[:2] == variant[:2]]) > 1:
        told.append(f"loss_scale {loss_scale}")
    return ", ".join(told)


def _gains(
    axes: Axes, variant: Label, pairs: Sequence[Pair], variants: Sequence[Label], palette: Palette
) -> Artist:
    """All of one variant, each in its own line of its row."""
    style = {**palette.style(variants.index(variant)), "linestyle": ""}
    rows = zip(axes.get_yticks(), pairs, strict=True)
    found = [
        (at + _offset_in(variant, variants), one, pair)
        for at, pair in rows
        for of, one in pair.gains
        if of == variant
    ]
    for at, one, _ in found:
        if one.low is not None and one.high is not None:
            axes.plot(
                [one.low, one.high], [at, at], color=style["color"], linewidth=1.2, gid="interval"
            )
    points = [
        (one.ratio, at, one.result.is_valid and pair.base.is_valid)
        for at, one, pair in found
        if one.ratio is not None
    ]
    (line,) = axes.plot(
        [ratio for ratio, _, _ in points],
        [at for _, at, _ in points],
        **style,
        zorder=2.5,
        gid=str(variant),
    )
    suspect = [(ratio, at) for ratio, at, is_valid in points if not is_valid]
    hollow = {"markerfacecolor": palette.ground, "markeredgecolor": style["color"]}
    axes.plot(
        [ratio for ratio, _ in suspect],
        [at for _, at in suspect],
        **style,
        **hollow,
        zorder=3,
        gid="suspect",
    )
    return line


def _offset_in(variant: Label, variants: Sequence[Label]) -> float:
    return (variants.index(variant) - (len(variants) - 1) / 2) * _MARK_IN


def _tell_failures(
    axes: Axes, pairs: Sequence[Pair], variants: Sequence[Label], palette: Palette
) -> None:
    """At the right of its line, behind the marker of its variant."""
    beyond = axes.get_yaxis_transform() + ScaledTranslation(0.05, 0, axes.figure.dpi_scale_trans)
    behind = beyond + ScaledTranslation(0.06, 0, axes.figure.dpi_scale_trans)
    for center_in, pair in zip(axes.get_yticks(), pairs, strict=True):
        for variant, one in pair.gains:
            if one.ratio is None:
                at = center_in + _offset_in(variant, variants)
                style = palette.style(variants.index(variant)) | {
                    "linestyle": "",
                    "clip_on": False,
                    "gid": "failed",
                }
                axes.plot([1], [at], transform=beyond, **style)
                told = symbol(one.result)
                axes.text(
                    1,
                    at,
                    told,
                    transform=behind,
                    va="center_baseline",
                    fontsize=FOOTER_PT,
                    color=palette.ink,
                )


def _x_axis(axes: Axes, ratios: Sequence[float]) -> None:
    """Logarithmic: half as fast and twice as fast are as far from 1."""
    low, high = min([1 / _SMALLEST_REACH, *ratios]), max([_SMALLEST_REACH, *ratios])
    reach = (high / low) ** 0.06
    ticks = log_ticks(low / reach, high * reach)
    axes.set_xscale("log")
    axes.set_xlim(low / reach, high * reach)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{tick:.3g}" for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("times fp32 without XLA")

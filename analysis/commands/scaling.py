"""`python -m analysis scaling`: what more GPUs bring, from how many on they do not pay, and how the
loss grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from analysis.options import BaselineOption, Filters, OriginOption, SourceOption, Sweep
from analysis.results import BaselineRule, Origin
from analysis.scaling.curves import Curve, Point, Scaling, scalings
from analysis.scaling.paying import Stop
from analysis.scaling.text import sentences
from analysis.selection import Selection
from analysis.source import Source
from analysis.text.numbers import number, span
from analysis.text.titles import alone_notes, table_notes, title
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.text.untrusted import visible
from store.command_line import Db, Json


def scaling(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = Origin.MEASURED,
    source: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    as_json: Json = False,
) -> None:
    """Per model: each strategy's speed-ups with intervals, from how many GPUs on it stops paying,
    and what limits it.
    """
    chosen = Selection(
        db=db,
        sweep=sweep,
        filters=tuple(filters or ()),
        origin=origin,
        source=source,
        baseline=baseline,
    )
    found = scalings(Source(selection=chosen).results)
    if as_json:
        print_json([_record(one) for one in found])
        return
    console = make_console()
    for one in found:
        _print(console.print, one)
        if one.curves:
            print_columns(console, _COLUMNS, _rows(one), right=frozenset(_COLUMNS[1:]))
        console.print()
    for note in dict.fromkeys((*chosen.notes, *_notes(found))):
        console.print(visible(note), markup=False, soft_wrap=True)


def _print(show: Any, one: Scaling) -> None:
    show(visible(title(one.table.setting)), style="bold", markup=False, soft_wrap=True)
    for note in table_notes(one.table):
        show(visible(note), style="dim", markup=False, soft_wrap=True)
    for sentence in sentences(one):
        show(visible(f"- {sentence}"), markup=False, soft_wrap=True)


_COLUMNS = (
    "strategy",
    "num_gpus",
    "images/s",
    "interval",
    "speed-up",
    "interval of it",
    "efficiency",
    "each added brings",
    "n",
)


def _rows(one: Scaling) -> Iterator[list[str]]:
    for curve in one.curves:
        for point in curve.points:
            yield _row(curve, point)


def _row(curve: Curve, point: Point) -> list[str]:
    result = point.result
    images = result.throughput or 0.0
    return [
        curve.strategy,
        str(result.num_gpus),
        number(images, exactly=result.place.origin is Origin.PUBLISHED),
        ""
        if result.low is None or result.high is None
        else f"[{span(result.low, result.high, images)}]",
        "" if result.speed_up is None else f"{result.speed_up:.2f}x",
        ""
        if point.speed_up_low is None
        else f"[{point.speed_up_low:.2f}..{point.speed_up_high:.2f}]",
        "" if result.efficiency is None else f"{100 * result.efficiency:.1f} %",
        "" if point.added is None else f"{100 * point.added.share:.0f} %",
        str(len(result.repeats)),
    ]


def _notes(found: Sequence[Scaling]) -> Iterator[str]:
    yield (
        "each added brings: each one more than in the line before, of what each of the first "
        "does; below 50 % it does not pay"
    )
    if any(
        point.speed_up_low is not None
        for one in found
        for curve in one.curves
        for point in curve.points
    ):
        yield "intervals: 95 %, over processes"
    else:
        yield (
            "no intervals of speed-ups: they need two or more repeats on both sides "
            "(sweep.repeats=3)"
        )
    yield from alone_notes(
        point.result for one in found for curve in one.curves for point in curve.points
    )


def _record(one: Scaling) -> dict[str, Any]:
    place = one.table.place
    return {
        "setting": dict(one.table.setting),
        "origin": str(place.origin),
        "place": place.key,
        "machine": place.machine,
        "versions": place.versions,
        "device_kind": str(place.device_kind),
        "scaling": "strong" if one.is_strong else "weak",
        "sentences": sentences(one),
        "crossovers": [asdict(change) for change in one.crossovers],
        "curves": [_curve(curve) for curve in one.curves],
    }


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "strategy": curve.strategy,
        "points": [_point(point) for point in curve.points],
        "stops_paying": curve.stop and _stop(curve.stop),
        "law": curve.law and asdict(curve.law) | {"describes": curve.law.describes},
        "no_law": curve.no_law,
        "serial": curve.serial and asdict(curve.serial),
    }


def _point(point: Point) -> dict[str, Any]:
    result, added = point.result, point.added
    return {
        "trial_id": result.trial_id,
        "num_gpus": result.num_gpus,
        "throughput": result.throughput,
        "throughput_low": result.low,
        "throughput_high": result.high,
        "repeats": list(result.repeats),
        "is_valid": result.is_valid,
        "speed_up": result.speed_up,
        "speed_up_low": point.speed_up_low,
        "speed_up_high": point.speed_up_high,
        "efficiency": result.efficiency,
        "efficiency_low": point.efficiency_low,
        "efficiency_high": point.efficiency_high,
        "hosts": result.hosts,
        "baseline_num_gpus": result.baseline and result.baseline.num_gpus,
        "baseline_strategy": result.baseline and result.baseline.strategy,
        "added_share": added and added.share,
        "added_share_low": added and added.low,
        "added_share_high": added and added.high,
        "added_is_sure": added and added.is_sure,
    }


def _stop(stop: Stop) -> dict[str, Any]:
    added = stop.added
    return {
        "num_gpus": stop.num_gpus,
        "is_sure": stop.is_sure,
        "up_to": added.after.num_gpus,
        "share": added.share,
        "share_low": added.low,
        "share_high": added.high,
    }

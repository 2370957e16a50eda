"""`python -m analysis scaling`: what more GPUs bring, where they stop paying, and how the loss
grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from analysis.options import (
    All,
    BaselineOption,
    Filters,
    OriginOption,
    SourceOption,
    Sweep,
    result_record,
    say,
    select,
    tell_all_sweeps,
)
from analysis.results import BaselineRule, Origin
from analysis.scaling import one_screen
from analysis.scaling.curves import Curve, Point, Scaling, scalings, with_extra_p
from analysis.scaling.extra_p import FEWEST_COUNTS
from analysis.scaling.paying import Stop
from analysis.scaling.text import sentences
from analysis.source import Source
from analysis.text import badges
from analysis.text.numbers import number, rate_span
from analysis.text.titles import reported_notes, step_notes, table_facts, title
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.records.devices import DeviceKind
from scalemark.text.decimals import fixed
from scalemark.text.wording import counted
from store.command_line import Db, Json

_COLUMNS = (
    "strategy",
    "num_gpus",
    "throughput",
    "speed-up",
    "efficiency",
    "marginal",
    "n",
)


def scaling(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: SourceOption = None,
    baseline: BaselineOption = BaselineRule.SAME,
    with_models: Annotated[
        bool, typer.Option("--extra-p", help="Have Extra-P, where installed, model curves, too.")
    ] = False,
    shows_all: All = False,
    as_json: Json = False,
) -> None:
    """Show from how many GPUs on more do not pay; with --all each strategy's speed-ups with
    intervals, and what limits it.
    """
    chosen = select(db, filters, sweep, origin, source, baseline)
    tell_all_sweeps(chosen)
    read = Source(selection=chosen)
    found = scalings(read.results)
    if with_models:
        found = with_extra_p(found)
    if as_json:
        return print_json([_record(one) for one in found])
    console = make_console()
    answer = [] if shows_all or with_models else list(one_screen.rows(found))
    if answer:
        say(console, "From how many GPUs on more do not pay:", "bold")
        print_columns(console, one_screen.COLUMNS, answer, right=one_screen.RIGHT)
        notes = [*read.notes, *_pays(found), *_suspect(found, chosen.show_command)]
        for note in filter(None, [one_screen.left_out(found), *notes]):
            say(console, note)
        return say(console, "--all has each curve, what limits it, and the rest", "dim")
    for one in found:
        _print(console, one)
    notes = [*read.notes, *_notes(found), *_suspect(found, chosen.show_command)]
    if with_models:
        notes += _not_modeled(found)
    for note in notes:
        say(console, note)
    return None


def _print(console: Console, one: Scaling) -> None:
    say(console, title(one.table.setting), "bold")
    for note in table_facts(one.table):
        say(console, note, "dim")
    for sentence in sentences(one):
        say(console, f"- {sentence}")
    if one.curves:
        rows = (_row(curve, point) for curve in one.curves for point in curve.points)
        devices = one.table.environment.devices.removeprefix("simulated ")
        unit = f"{one.table.unit} [95 % CI]"
        shown_as = {"num_gpus": devices, "throughput": unit, "speed-up": "speed-up [95 % CI]"}
        columns = [shown_as.get(name, name) for name in _COLUMNS]
        print_columns(console, columns, rows, right=frozenset(columns[1:]))
    console.print()


def _row(curve: Curve, point: Point) -> list[str]:
    result, images = point.result, point.result.throughput or 0.0
    cells = dict.fromkeys(_COLUMNS, "")
    cells |= {
        "strategy": curve.strategy,
        "num_gpus": str(result.num_gpus),
        "throughput": number(images, exactly=result.environment.origin is Origin.PUBLISHED),
        "n": str(len(result.repeats)),
    }
    if result.low is not None and result.high is not None:
        cells["throughput"] += f" [{rate_span(result.low, result.high, images)}]"
    if result.speed_up is not None:
        cells["speed-up"] = f"{fixed(result.speed_up, 2)}x"
    if result.efficiency is not None:
        cells["efficiency"] = f"{fixed(100 * result.efficiency, 1)} %"
    if point.speed_up_low is not None:
        cells["speed-up"] += f" [{point.speed_up_low:.2f}, {point.speed_up_high:.2f}]"
    if point.added is not None:
        cells["marginal"] = f"{100 * point.added.share:.0f} %"
    return list(cells.values())


def _suspect(found: Sequence[Scaling], show_command: str) -> Iterator[str]:
    """Yield the command that says why the first suspect number is."""
    for one in found:
        for result in one.table.results:
            if result.throughput is not None and not result.is_valid and result.attempt_ids:
                yield f"suspect: {show_command} {result.attempt_ids[-1]} says why the first is"
                return


def _not_modeled(found: Sequence[Scaling]) -> Iterator[str]:
    curves = [curve for one in found for curve in one.curves]
    if num := sum(curve.extra_p is None for curve in curves):
        yield (
            f"without a model of Extra-P: {num} of {counted(len(curves), 'curve')}, on fewer than "
            f"{FEWEST_COUNTS} numbers of devices"
        )


def _pays(found: Sequence[Scaling]) -> Iterator[str]:
    yield (
        "pays: each GPU that is added brings half or more of what each of the first did; perhaps: "
        "not sure, single runs or too few repeats"
    )
    yield from reported_notes([result for one in found for result in one.table.results])
    used = {badge for one in found for badge in badges.of_environment(one.table.environment)}
    used |= {badge for one in found for curve in one.curves for badge in one_screen.doubts(curve)}
    if meanings := badges.foot(used):
        yield meanings


def _notes(found: Sequence[Scaling]) -> Iterator[str]:
    points = [point for one in found for curve in one.curves for point in curve.points]
    if not all(point.result.counts_steps for point in points):
        kinds = dict.fromkeys(one.table.environment.device_kind for one in found)
        added = " or ".join(kind.plural for kind in kinds)
        pays = "; below 50 % they do not pay"
        if DeviceKind.CPU_DEVICE in kinds:
            pays = ""  # they share the machine's cores, and none is paid for
        since = "since the line before, against the first"
        yield f"marginal: efficiency of the {added} added {since}{pays}"
    if all(point.speed_up_low is None for point in points):
        is_ours = found[0].table.environment.origin.is_ours
        how = " (sweep.repeats=3)" if is_ours else ""
        yield f"no CI of speed-ups: they need two or more repeats on both sides{how}"
    used = {badge for one in found for badge in badges.of_environment(one.table.environment)}
    if any("single run" in badges.of_result(point.result) for point in points):
        used.add("single run")
    if meanings := badges.foot(used):
        yield meanings


def _record(one: Scaling) -> dict[str, Any]:
    environment = one.table.environment
    return {
        "setting": dict(one.table.setting),
        "origin": environment.origin,
        "environment": environment.key,
        "machine": environment.machine,
        "versions": environment.versions,
        "device_kind": environment.device_kind,
        "scaling": one.way,
        "sentences": sentences(one),
        "notes": step_notes(one.table.results),
        "crossovers": [asdict(change) for change in one.crossovers],
        "curves": [_curve_record(curve) for curve in one.curves],
    }


def _curve_record(curve: Curve) -> dict[str, Any]:
    return {
        "strategy": curve.strategy,
        "points": [_point_record(point) for point in curve.points],
        "stops_paying": curve.stop and _stop_record(curve.stop),
        "law": curve.law and asdict(curve.law) | {"describes": curve.law.describes},
        "no_law": curve.no_law,
        "serial": curve.serial and asdict(curve.serial),
        "extra_p": curve.extra_p and asdict(curve.extra_p),
    }


def _point_record(point: Point) -> dict[str, Any]:
    baseline, added = point.result.baseline, point.added
    return result_record(point.result) | {
        "speed_up_low": point.speed_up_low,
        "speed_up_high": point.speed_up_high,
        "baseline_num_gpus": baseline and baseline.num_gpus,
        "baseline_strategy": baseline and baseline.strategy,
        "added_share": added and added.share,
        "added_share_low": added and added.low,
        "added_share_high": added and added.high,
        "added_is_sure": added and added.is_sure,
    }


def _stop_record(stop: Stop) -> dict[str, Any]:
    return {
        "num_gpus": stop.num_gpus,
        "is_sure": stop.is_sure,
        "up_to": stop.added.after.num_gpus,
        "share": stop.added.share,
        "share_low": stop.added.low,
        "share_high": stop.added.high,
    }

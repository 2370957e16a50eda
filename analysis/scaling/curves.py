"""The answer of `scaling`: the curve of each strategy, where it stops paying, and who leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.pivot import pivot
from analysis.results import Result, scales_strongly
from analysis.scaling import paying
from analysis.scaling.crossovers import Crossover, crossovers, leads
from analysis.scaling.paying import Added, PayingStop
from analysis.tables.table import Table
from analysis.text import badges
from analysis.text.titles import table_facts
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.stats.welch import known_ratio_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One number of GPUs on a curve."""

    trial_id: str
    num_gpus: int
    hosts: int
    throughput: float
    throughput_low: float | None  # 95 % CI, as everywhere below
    throughput_high: float | None
    repeats: tuple[float, ...]  # throughput of each process
    attempts: tuple[int, ...]
    is_valid: bool
    is_reported: bool  # a program of the user's printed this number alone
    speed_up: float | None
    speed_up_low: float | None  # None of the baseline, and where a side is a single run
    speed_up_high: float | None
    efficiency: float | None
    baseline_strategy: str | None
    baseline_num_gpus: int | None
    # what each GPU since the point before adds, as a share of what each of the first brings; None
    # of the first point, and where nobody knows how much work a step is
    added_share: float | None
    added_share_low: float | None
    added_share_high: float | None
    added_is_sure: bool | None  # whether the share is known to be above or below one half
    gain: float | None  # throughput, as a multiple of that of the point before
    is_slower: bool  # than the point before, and no tie
    is_surely_slower: bool
    doubts: tuple[str, ...]  # badges


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One strategy, by number of GPUs."""

    strategy: str
    points: tuple[CurvePoint, ...]  # those with a number, at least one
    stops_paying: PayingStop | None  # None: all that were tried pay, or nobody can tell


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPoint:
    """A trial without a number."""

    strategy: str
    num_gpus: int
    hosts: int
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The answer for one model in one setting and environment."""

    setting: Mapping[str, object]
    origin: Origin
    environment: str  # its key
    host: str
    machine: str
    versions: str
    device_kind: DeviceKind
    unit: str  # of throughput
    scaling: str | None  # `strong` or `weak`; None of programs and where the batch is unknown
    # whether its numbers tell if more GPUs pay: CPU devices share the cores of one machine, and a
    # step may grow with the GPUs
    tells_what_pays: bool
    curves: tuple[Curve, ...]  # of strategies that have a number
    crossovers: tuple[Crossover, ...]
    failures: tuple[FailedPoint, ...]
    doubts: tuple[str, ...]  # badges of all its numbers
    notes: tuple[str, ...]  # facts of all its numbers, as machine and software


def scalings(results: Sequence[Result]) -> list[Scaling]:
    """Return one answer per model, setting and environment."""
    return [_scaling(table) for table in pivot(results)]


def curve_of(results: Sequence[Result]) -> list[Result]:
    """Order results over as many hosts by their GPUs, those that have a number.

    The fastest of each number counts, for sources tell figures apart by notes alone.
    """
    able = [result for result in results if result.throughput is not None]
    fastest_last = sorted(able, key=lambda result: (result.num_gpus, result.throughput))
    return list({result.num_gpus: result for result in fastest_last}.values())


def _scaling(table: Table) -> Scaling:
    environment = table.environment
    counts_steps = any(result.counts_steps for result in table.results)
    on_gpus = environment.device_kind is not DeviceKind.CPU_DEVICE
    tells_what_pays = on_gpus and not counts_steps
    curves = []
    for row in table.rows:
        cells = [cell.result for (of, _), cell in table.cells.items() if of == row]
        if results := curve_of(cells):
            curves.append(_curve(results, tells_what_pays=tells_what_pays))
    return Scaling(
        setting=dict(table.setting),
        origin=environment.origin,
        environment=environment.key,
        host=environment.host,
        machine=environment.machine,
        versions=environment.versions,
        device_kind=environment.device_kind,
        unit=table.unit,
        scaling=_way(table),
        tells_what_pays=tells_what_pays,
        curves=tuple(curves),
        crossovers=tuple(crossovers(leads(table))),
        failures=tuple(_failure(one) for one in table.results if one.throughput is None),
        doubts=tuple(badges.of_environment(environment)),
        notes=tuple(table_facts(table)),
    )


def _failure(result: Result) -> FailedPoint:
    return FailedPoint(
        strategy=result.strategy,
        num_gpus=result.num_gpus,
        hosts=result.hosts,
        outcome=result.ended,
    )


def _way(table: Table) -> str | None:
    results = table.results
    if any(scales_strongly(result) for result in results):
        return "strong"
    if any(result.is_of_program for result in results):
        return None
    if not table.environment.origin.is_ours and table.setting.get("batch_size") is None:
        return None
    return "weak"


def _curve(results: Sequence[Result], *, tells_what_pays: bool) -> Curve:
    steps: list[Added | None] = [None] * len(results)
    if not results[0].counts_steps:
        steps[1:] = paying.steps(results)
    return Curve(
        strategy=results[0].strategy,
        points=tuple(_point(one, step) for one, step in zip(results, steps, strict=True)),
        stops_paying=paying.stop(results) if tells_what_pays else None,
    )


def _point(result: Result, step: Added | None) -> CurvePoint:
    baseline = result.baseline
    low, high = None, None
    if baseline is not None and baseline.trial_id != result.trial_id:
        low, high = known_ratio_interval(result.repeats, baseline.repeats)
    return CurvePoint(
        trial_id=result.trial_id,
        num_gpus=result.num_gpus,
        hosts=result.hosts,
        throughput=result.throughput or 0.0,
        throughput_low=result.low,
        throughput_high=result.high,
        repeats=result.repeats,
        attempts=result.attempt_ids,
        is_valid=result.is_valid,
        is_reported=result.is_reported,
        speed_up=result.speed_up,
        speed_up_low=low,
        speed_up_high=high,
        efficiency=result.efficiency,
        baseline_strategy=baseline.strategy if baseline else None,
        baseline_num_gpus=baseline.num_gpus if baseline else None,
        added_share=step.share if step else None,
        added_share_low=step.low if step else None,
        added_share_high=step.high if step else None,
        added_is_sure=step.is_sure if step else None,
        gain=step.gain if step else None,
        is_slower=step is not None and step.gain < 1 and not step.is_tie,
        is_surely_slower=step is not None and step.is_surely_slower,
        doubts=tuple(badges.of_result(result)),
    )

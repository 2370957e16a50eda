"""The answer of `scaling`: the curve of each strategy, and where it stops paying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from analysis import badges
from analysis.pivot import Table, pivot
from analysis.results import Result, scales_strongly
from analysis.titles import table_facts
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.stats.welch import error_of_log_mean, known_ratio_interval, reach_of_sum

PAYS_FROM = 0.5  # of what one GPU brings: each that is added should add as much, to be worth it


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedGpus:
    """The gain from more GPUs."""

    before: Result
    after: Result
    share: float  # of what each GPU of the first result brings: what each that was added does
    low: float | None  # 95 % CI; None where one of the three is a single run
    high: float | None

    @property
    def pays(self) -> bool:
        return self.share >= PAYS_FROM

    @property
    def is_sure(self) -> bool:
        """Say whether `pays` is known; what others published counts as it stands."""
        if self.before.environment.origin is Origin.PUBLISHED:
            return True
        if self.low is None or self.high is None:
            return False
        return (self.low >= PAYS_FROM) == (self.high >= PAYS_FROM)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaysUpTo:
    """More GPUs than these do not pay, up to the most that were tried."""

    num_gpus: int
    up_to: int  # the most that were tried
    # what each GPU from `num_gpus` to `up_to` adds, as a share of what each of the first brings
    share: float
    share_low: float | None
    share_high: float | None
    is_sure: bool


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
    # of the first point, and where the work of a step is unknown
    added_share: float | None
    added_share_low: float | None
    added_share_high: float | None
    added_is_sure: bool | None  # whether the share is known to be above or below one half
    doubts: tuple[str, ...]  # badges


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingCurve:
    """One strategy, by number of GPUs."""

    strategy: str
    points: tuple[CurvePoint, ...]  # those with a number, at least one
    stops_paying: PaysUpTo | None  # None: all that were tried pay, or it cannot be told


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
    curves: tuple[ScalingCurve, ...]  # of strategies that have a number
    failures: tuple[str, ...]  # trials without a number, as `ps_cpu on 8 out of memory`
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
        results = curve_of(cells)
        if results:
            curves.append(_curve(results, tells_what_pays=tells_what_pays))
    failures = []
    for result in table.results:
        if result.throughput is None:
            failures.append(f"{result.strategy} on {result.width} {result.ended}")
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
        failures=tuple(failures),
        doubts=tuple(badges.of_environment(environment)),
        notes=tuple(table_facts(table)),
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


def _curve(results: Sequence[Result], *, tells_what_pays: bool) -> ScalingCurve:
    steps: list[AddedGpus | None] = [None] * len(results)
    if not results[0].counts_steps:
        steps[1:] = steps_of(results)
    return ScalingCurve(
        strategy=results[0].strategy,
        points=tuple(_point(result, step) for result, step in zip(results, steps, strict=True)),
        stops_paying=stop_of(results) if tells_what_pays else None,
    )


def _point(result: Result, step: AddedGpus | None) -> CurvePoint:
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
        doubts=tuple(badges.of_result(result)),
    )


def added(first: Result, before: Result, after: Result) -> AddedGpus:
    """Compare three results of one curve that have numbers; `before` may be the first."""
    per_added = first.num_gpus / (after.num_gpus - before.num_gpus)
    share = per_added * (_images(after) - _images(before)) / _images(first)
    reach = _reach(first, before, after, per_added)
    return AddedGpus(
        before=before,
        after=after,
        share=share,
        low=None if reach is None else share - reach,
        high=None if reach is None else share + reach,
    )


def steps_of(curve: Sequence[Result]) -> list[AddedGpus]:
    """Return the steps of a curve, whose results have numbers and are in order of their GPUs."""
    return [added(curve[0], before, after) for before, after in pairwise(curve)]


def stop_of(curve: Sequence[Result]) -> PaysUpTo | None:
    """Return the fewest GPUs beyond which no larger number that was tried pays."""
    for position, before in enumerate(curve[:-1]):
        beyond = [added(curve[0], before, after) for after in curve[position + 1 :]]
        if not any(step.pays for step in beyond):
            most = beyond[-1]
            return PaysUpTo(
                num_gpus=before.num_gpus,
                up_to=most.after.num_gpus,
                share=most.share,
                share_low=most.low,
                share_high=most.high,
                is_sure=all(step.is_sure for step in beyond),
            )
    return None


def _reach(first: Result, before: Result, after: Result, per_added: float) -> float | None:
    """Return half the interval of a share, from the errors of the logarithms of its throughputs."""
    if min(len(first.repeats), len(before.repeats), len(after.repeats)) < 2:
        return None
    # slopes of the share against each logarithm; `before` may be the first
    slopes = {first.num_gpus: 0.0, before.num_gpus: 0.0, after.num_gpus: 0.0}
    slopes[after.num_gpus] += per_added * _images(after) / _images(first)
    slopes[before.num_gpus] -= per_added * _images(before) / _images(first)
    slopes[first.num_gpus] -= per_added * (_images(after) - _images(before)) / _images(first)
    errors = []
    for result in {each.num_gpus: each for each in (first, before, after)}.values():
        error = slopes[result.num_gpus] * error_of_log_mean(result.repeats)
        errors.append((error**2, len(result.repeats) - 1))
    return reach_of_sum(errors)


def _images(result: Result) -> float:
    return result.throughput or 0.0

"""The answer of `scaling`: the curve of each strategy, where it stops paying, and its words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from analysis import badges
from analysis.pivot import Table, over_growing_hosts, pivot
from analysis.results import GlobalBatch, Result, over, scales_strongly
from analysis.titles import named, number, spread, table_facts
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import OF_PRECISION
from scalemark.records.references import Origin
from scalemark.stats.welch import error_of_log_mean, known_ratio_interval, reach_of_sum
from scalemark.text.wording import counted, fixed, listed, shortened

PAYS_FROM = 0.5  # of what one GPU brings: each that is added should add as much, to be worth it
OVERVIEW = ("work", "strategy", "pays up to", "speed-up", "efficiency", "each more adds")
POINTS = ("strategy", "num_gpus", "throughput", "speed-up", "efficiency", "each added", "n")
_MOST_NAMED = 6


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

    result: Result  # with a number
    speed_up_low: float | None  # 95 % CI; None of the baseline, and where a side is a single run
    speed_up_high: float | None
    # since the point before; None of the first, and where the work of a step is unknown
    added: AddedGpus | None

    def facts(self) -> dict[str, Any]:
        """Return what --json prints of it."""
        result, added, baseline = self.result, self.added, self.result.baseline
        return {
            "trial_id": result.trial_id,
            "num_gpus": result.num_gpus,
            "hosts": result.hosts,
            "throughput": result.throughput,
            "throughput_low": result.low,  # 95 % CI, as everywhere below
            "throughput_high": result.high,
            "repeats": result.repeats,
            "attempts": result.attempt_ids,
            "is_valid": result.is_valid,
            "is_reported": result.is_reported,
            "speed_up": result.speed_up,
            "speed_up_low": self.speed_up_low,
            "speed_up_high": self.speed_up_high,
            "efficiency": result.efficiency,
            "baseline_strategy": baseline and baseline.strategy,
            "baseline_num_gpus": baseline and baseline.num_gpus,
            "added_share": added and added.share,
            "added_share_low": added and added.low,
            "added_share_high": added and added.high,
            # whether the share is known to be above or below one half
            "added_is_sure": added and added.is_sure,
            "doubts": badges.of_result(result),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingCurve:
    """One strategy, by number of GPUs."""

    strategy: str
    points: tuple[CurvePoint, ...]  # at least one
    stops_paying: PaysUpTo | None  # None: all that were tried pay, or it is unknown

    @property
    def doubts(self) -> list[str]:
        """Return the badges of its numbers, each once."""
        every = [badge for point in self.points for badge in badges.of_result(point.result)]
        return list(dict.fromkeys(every))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The answer for one model in one setting and environment."""

    table: Table
    scaling: str | None  # `strong` or `weak`; None of programs and where the batch is unknown
    # whether its numbers tell if more GPUs pay: CPU devices share the cores of one machine, and a
    # step may grow with the GPUs
    tells_what_pays: bool
    curves: tuple[ScalingCurve, ...]  # of strategies that have a number
    failures: tuple[str, ...]  # trials without a number, as `ps_cpu on 8 out of memory`

    @property
    def telling(self) -> list[ScalingCurve]:
        """Return the curves that tell whether more GPUs pay."""
        if not self.tells_what_pays:
            return []
        return [curve for curve in self.curves if len(curve.points) > 1]

    def facts(self) -> dict[str, Any]:
        """Return what --json prints of it."""
        environment = self.table.environment
        return {
            "setting": dict(self.table.setting),
            "origin": environment.origin,
            "environment": environment.key,
            "host": environment.host,
            "machine": environment.machine,
            "versions": environment.versions,
            "device_kind": environment.device_kind,
            "unit": self.table.unit,
            "scaling": self.scaling,
            "tells_what_pays": self.tells_what_pays,
            "curves": self.curves,
            "failures": self.failures,
            "doubts": badges.of_environment(environment),
            "notes": table_facts(self.table),
        }


def scalings(results: Sequence[Result]) -> list[Scaling]:
    """Return one answer per model, setting and environment."""
    return [_scaling(table) for table in over_growing_hosts(pivot(results))]


def curve_of(results: Sequence[Result]) -> list[Result]:
    """Order results over as many hosts by their GPUs, those that have a number.

    The fastest of each number counts, for sources tell figures apart by notes alone.
    """
    able = [result for result in results if result.throughput is not None]
    fastest_last = sorted(able, key=lambda result: (result.num_gpus, result.throughput))
    return list({result.num_gpus: result for result in fastest_last}.values())


def _scaling(table: Table) -> Scaling:
    results, environment = table.results, table.environment
    on_gpus = environment.device_kind is not DeviceKind.CPU_DEVICE
    tells_what_pays = on_gpus and not any(result.counts_steps for result in results)
    curves = []
    for row in table.rows:
        of_row = curve_of([cell.result for (of, _), cell in table.cells.items() if of == row])
        if of_row:
            curves.append(_curve(of_row, tells_what_pays=tells_what_pays))
    failures = []
    for result in results:
        if result.throughput is None:
            failures.append(f"{result.strategy} on {result.width} {result.ended}")
    is_unknown = not environment.origin.is_ours and table.setting.get("batch_size") is None
    scaling: str | None = "weak"
    if any(scales_strongly(result) for result in results):
        scaling = "strong"
    elif is_unknown or any(result.is_of_program for result in results):
        scaling = None
    return Scaling(
        table=table,
        scaling=scaling,
        tells_what_pays=tells_what_pays,
        curves=tuple(curves),
        failures=tuple(failures),
    )


def _curve(results: Sequence[Result], *, tells_what_pays: bool) -> ScalingCurve:
    steps: list[AddedGpus | None] = [None] * len(results)
    if not results[0].counts_steps:
        steps[1:] = steps_of(results)
    points = []
    for result, step in zip(results, steps, strict=True):
        baseline, low, high = result.baseline, None, None
        if baseline is not None and baseline.trial_id != result.trial_id:
            low, high = known_ratio_interval(result.repeats, baseline.repeats)
        points.append(CurvePoint(result=result, speed_up_low=low, speed_up_high=high, added=step))
    return ScalingCurve(
        strategy=results[0].strategy,
        points=tuple(points),
        stops_paying=stop_of(results) if tells_what_pays else None,
    )


def added(first: Result, before: Result, after: Result) -> AddedGpus:
    """Compare three results of one curve that have numbers; `before` may be the first."""
    per_added = first.num_gpus / (after.num_gpus - before.num_gpus)
    share = per_added * (_rate(after) - _rate(before)) / _rate(first)
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
    slopes[after.num_gpus] += per_added * _rate(after) / _rate(first)
    slopes[before.num_gpus] -= per_added * _rate(before) / _rate(first)
    slopes[first.num_gpus] -= per_added * (_rate(after) - _rate(before)) / _rate(first)
    errors = []
    for result in {each.num_gpus: each for each in (first, before, after)}.values():
        error = slopes[result.num_gpus] * error_of_log_mean(result.repeats)
        errors.append((error**2, len(result.repeats) - 1))
    return reach_of_sum(errors)


def _rate(result: Result) -> float:
    return result.throughput or 0.0


def headline(answers: Sequence[Scaling]) -> str:
    """Say for how many strategies more GPUs pay, and how sure that is."""
    curves = [curve for scaling in answers for curve in scaling.telling]
    if not curves:
        return "Whether more devices pay is not known: no strategy ran on two numbers of GPUs."
    num_stopped = sum(curve.stops_paying is not None for curve in curves)
    if len(curves) == 1:
        text = f"{curves[0].strategy}: {_pays(curves[0])}."
    elif not num_stopped:
        text = f"More GPUs pay for all {len(curves)} strategies, up to the most tried."
    else:
        text = f"More GPUs stop paying for {num_stopped} of {len(curves)} strategies."
    points = [point.result for curve in curves for point in curve.points]
    is_ours = all(scaling.table.environment.origin.is_ours for scaling in answers)
    if is_ours and any(len(result.repeats) == 1 for result in points):
        text += " Single runs: repeat before deciding."
    return text


def overview(answers: Sequence[Scaling]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each curve that tells whether more GPUs pay: the cells of OVERVIEW, and
    doubts. The work stands in the first of its rows alone.
    """
    axes, places = _differing(answers), _places(answers)
    for scaling in answers:
        words = []
        for axis in axes:
            value = scaling.table.setting.get(axis)
            words.append(str(value) if axis == "model" else named(axis, value))
        if len(places) > 1:
            words.append(places[scaling.table.environment.key])
        work = ", ".join(words) or "all"
        for curve in scaling.telling:
            yield work, *_overview_row(curve), ", ".join(curve.doubts)
            work = ""


def sentences(scaling: Scaling) -> list[str]:
    """Say what failed, how the batch grows, and what is missing."""
    lines = [] if scaling.curves else ["No trial has a number."]
    if scaling.failures:
        lines.append(f"Without a number: {listed(shortened(scaling.failures, _MOST_NAMED))}.")
    batch_size = scaling.table.setting.get("batch_size")
    if scaling.scaling == "strong" and isinstance(batch_size, GlobalBatch):
        lines.append(f"Strong scaling: the batch of all GPUs stays {int(batch_size)}.")
    elif scaling.scaling == "strong":
        lines.append("Strong scaling: all GPUs share one batch of constant size.")
    elif scaling.scaling == "weak":
        lines.append("Weak scaling: the batch grows with the number of GPUs.")
    results = [point.result for curve in scaling.curves for point in curve.points]
    if len({result.num_gpus for result in results}) == 1:
        lines.append("One number of devices was tried, which tells nothing about scaling.")
    elif all(result.speed_up is None for result in results):
        lines.append("Speed-ups need a number on 1; --baseline fewest takes another.")
    return lines


def rows(scaling: Scaling) -> Iterator[tuple[str, ...]]:
    """Yield the cells of POINTS for every number."""
    for curve in scaling.curves:
        for point in curve.points:
            result, added_share = point.result, ""
            rate = number(_rate(result), exactly=result.environment.origin is Origin.PUBLISHED)
            around = spread(result.repeats, result.low, result.high, _rate(result))
            if point.added is not None:
                added_share = f"{100 * point.added.share:.0f} %"
            yield (
                curve.strategy,
                result.width,
                f"{rate} {around}".rstrip(),
                _speed_up(point),
                _efficiency(result, 1),
                added_share,
                str(len(result.repeats)),
            )


def _pays(curve: ScalingCurve) -> str:
    stop, last = curve.stops_paying, curve.points[-1]
    if stop is None:
        perhaps = "" if last.added and last.added.is_sure else "perhaps "
        return f"{perhaps}all {last.result.num_gpus} GPUs pay, the most tried"
    perhaps = "" if stop.is_sure else "perhaps "
    first, share = stop.num_gpus + 1, f"{100 * stop.share:.0f} % of a first GPU's throughput"
    adds = f"GPUs {first} to {stop.up_to} add {share} each"
    if stop.up_to == first:
        adds = f"GPU {first} adds {share}"
    return f"{perhaps}more than {counted(stop.num_gpus, 'GPU')} do not pay, since {adds}"


def _overview_row(curve: ScalingCurve) -> tuple[str, ...]:
    stop, point, adds = curve.stops_paying, curve.points[-1], ""
    is_sure = point.added is not None and point.added.is_sure
    if stop is not None:
        point = next(each for each in curve.points if each.result.num_gpus == stop.num_gpus)
        is_sure, adds = stop.is_sure, f"{100 * stop.share:.0f} %"
    pays = f"{point.result.num_gpus}{over(point.result.hosts)}"
    if not is_sure and len(point.result.repeats) > 1:
        pays = f"perhaps {pays}"
    return curve.strategy, pays, _speed_up(point), _efficiency(point.result, 0), adds


def _efficiency(result: Result, decimals: int) -> str:
    return "" if result.efficiency is None else f"{fixed(100 * result.efficiency, decimals)} %"


def _speed_up(point: CurvePoint) -> str:
    if point.result.speed_up is None:
        return ""
    text = f"{fixed(point.result.speed_up, 2)}x"
    if point.speed_up_low is None:
        return text
    return f"{text} [{point.speed_up_low:.2f}, {point.speed_up_high:.2f}]"


def _differing(answers: Sequence[Scaling]) -> list[str]:
    """Return the axes that name a setting: the model, and others in which settings of one model
    differ but for what follows from a precision.
    """
    values: dict[str, dict[object, set[str]]] = defaultdict(lambda: defaultdict(set))
    for scaling in answers:
        for axis, value in scaling.table.setting.items():
            values[axis][scaling.table.setting.get("model")].add(str(value))
    apart = {axis for axis, by_model in values.items() if max(map(len, by_model.values())) > 1}
    if "precision" in apart:
        apart.difference_update(OF_PRECISION)
    return [axis for axis in values if axis == "model" or axis in apart]


def _places(answers: Sequence[Scaling]) -> dict[str, str]:
    """Name each environment by its host, and its software where a host has several."""
    environments = {scaling.table.environment.key: scaling.table.environment for scaling in answers}
    hosts = Counter(environment.host for environment in environments.values())
    places = {}
    for key, environment in environments.items():
        places[key] = environment.host
        if hosts[environment.host] > 1:
            places[key] = f"{environment.host} ({environment.versions})"
    return places

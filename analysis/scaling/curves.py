"""Builds each strategy's curve, with where more GPUs stop paying and how its loss grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from analysis.pivot import pivot
from analysis.results import Result, scales_strongly
from analysis.scaling import extra_p, paying
from analysis.scaling.crossovers import Crossover, Lead, crossovers, leads
from analysis.scaling.paying import Added, Stop
from analysis.scaling.scalability import FEWEST_COUNTS, Law, Serial, fitted, serial_share
from analysis.tables.table import Table
from scalemark.records.devices import DeviceKind
from scalemark.stats.welch import known_ratio_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One number of GPUs on a curve."""

    result: Result
    # 95 % CI over processes; None of the baseline, and where a side is a single run
    speed_up_low: float | None
    speed_up_high: float | None
    # what the GPUs more than those of the point before bring; None of the first
    added: Added | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One strategy, by number of GPUs."""

    strategy: str
    points: tuple[Point, ...]  # those with a number, at least one
    stop: Stop | None  # None: all that were tried pay
    law: Law | None
    no_law: str  # why there is none that describes the curve; empty where there is
    serial: Serial | None  # on the most GPUs
    extra_p: extra_p.Model | None = None  # where it was asked for

    @property
    def slower(self) -> list[list[Added]]:
        """Negative scaling: runs of steps to more GPUs that made it slower."""
        runs: list[list[Added]] = [[]]
        for step in (one.added for one in self.points if one.added):
            if step.gain < 1 and not step.is_tie:
                runs[-1].append(step)
            else:
                runs.append([])
        return [run for run in runs if run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """One model in one setting and environment."""

    table: Table  # strategies down, GPUs across
    curves: tuple[Curve, ...]  # those with a number
    leads: tuple[Lead, ...]
    crossovers: tuple[Crossover, ...]

    @property
    def speaks_of_gpus(self) -> bool:
        """Say whether its numbers tell what more GPUs bring."""
        return _speaks_of_gpus(self.table)

    @property
    def is_strong(self) -> bool:
        """Say whether the batch of all GPUs stays the same; figures per GPU scale weakly, but for
        those of sources that accumulate, and programs in a way of their own.
        """
        return any(scales_strongly(one) for one in self.table.results)

    @property
    def way(self) -> str | None:
        """Return `strong` or `weak`; None of programs."""
        if any(one.is_of_program for one in self.table.results):
            return None
        return "strong" if self.is_strong else "weak"


def scalings(results: Sequence[Result]) -> list[Scaling]:
    """Return one per model, setting and environment."""
    return [_scaling(table) for table in pivot(results)]


def with_extra_p(found: Sequence[Scaling]) -> list[Scaling]:
    """Return them with Extra-P's models of their curves. Raises StoreError as `extra_p.models`."""
    curves = [curve for one in found for curve in one.curves]
    models = extra_p.models([[point.result for point in curve.points] for curve in curves])
    modeled = map(_with_model, curves, models)
    return [replace(one, curves=tuple(islice(modeled, len(one.curves)))) for one in found]


def _with_model(curve: Curve, model: extra_p.Model | None) -> Curve:
    return replace(curve, extra_p=model)


def curve_of(results: Sequence[Result]) -> list[Result]:
    """Order results over as many hosts by their GPUs, those that have a number.

    The fastest of each number counts, for sources tell figures apart by notes alone.
    """
    able = [one for one in results if one.throughput is not None]
    fastest_last = sorted(able, key=lambda one: (one.num_gpus, one.throughput))
    return list({one.num_gpus: one for one in fastest_last}.values())


def _speaks_of_gpus(table: Table) -> bool:
    """CPU devices share the cores of one machine, and a step may grow with the GPUs."""
    on_gpus = table.environment.device_kind is not DeviceKind.CPU_DEVICE
    return on_gpus and not any(one.counts_steps for one in table.results)


def _scaling(table: Table) -> Scaling:
    led = leads(table)
    strong = any(scales_strongly(one) for one in table.results)
    on_gpus = _speaks_of_gpus(table)
    curves = []
    for row in table.rows:
        points = curve_of([cell.result for (of, _), cell in table.cells.items() if of == row])
        if points:
            curves.append(_curve(points, strong=strong, on_gpus=on_gpus))
    return Scaling(
        table=table, curves=tuple(curves), leads=tuple(led), crossovers=tuple(crossovers(led))
    )


def _curve(results: Sequence[Result], *, strong: bool, on_gpus: bool) -> Curve:
    law = fitted(results) if on_gpus else None
    if results[0].counts_steps:
        no_law = "nobody knows how many items a step has"
    elif not on_gpus:
        no_law = "CPU devices share the machine's cores"
    elif law is None:
        no_law = f"a law needs {FEWEST_COUNTS} numbers of GPUs, and there are {len(results)}"
    elif not law.describes:
        no_law = (
            f"the Universal Scalability Law misses the curve by {law.misfit:.1%}: its loss does "
            "not grow steadily"
        )
    else:
        no_law = ""
    # by which of the laws a share is derived depends on how the batch grows
    knows_batch = on_gpus and not results[0].is_of_program
    steps: list[Added | None] = [None] * len(results)
    if not results[0].counts_steps:
        steps[1:] = paying.steps(results)
    return Curve(
        strategy=results[0].strategy,
        points=tuple(_point(one, step) for one, step in zip(results, steps, strict=True)),
        stop=paying.stop(results) if on_gpus else None,
        law=law,
        no_law=no_law,
        serial=serial_share(results[-1], strong=strong) if knows_batch else None,
    )


def _point(result: Result, step: Added | None) -> Point:
    low, high = None, None
    if result.baseline and result.baseline.trial_id != result.trial_id:
        low, high = known_ratio_interval(result.repeats, result.baseline.repeats)
    return Point(result=result, speed_up_low=low, speed_up_high=high, added=step)

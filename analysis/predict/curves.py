"""The curves that results make, and what each of them is predicted to reach on more GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from analysis.known_boxes import known_box
from analysis.predict.rules import Basis, Carried, carry
from analysis.results import Environment, Result, setting
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import AXES
from scalemark.stats.welch import typical
from simulator.costs.box import Hardware

MOST_TIMES = 8
"""More GPUs than a curve has, at most: further on errors of every rule grow without bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCurve:
    """The results that differ in the number of GPUs alone, each count with its fewest hosts."""

    results: tuple[Result, ...]  # with a number, by increasing number of GPUs

    @property
    def environment(self) -> Environment:
        return self.results[0].environment

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def throughput(self) -> dict[int, float]:
        """Return it by number of GPUs; figures of one count are averaged."""
        values_of: dict[int, list[float]] = defaultdict(list)
        for result in self.results:
            if result.throughput is not None:
                values_of[result.num_gpus].append(result.throughput)
        return {num_gpus: typical(values) for num_gpus, values in values_of.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The throughput of one curve on more GPUs. It is no measurement, and is never stored."""

    environment: str  # key
    machine: str
    origin: str  # of the curve
    model: str
    strategy: str
    setting: Mapping[str, object]  # all other axes that the curve's trials share
    num_gpus: int
    unit: str
    rests_on: tuple[str, ...]  # trials, or keys of published figures
    num_counts: int  # of GPUs that these have
    throughput: float | None = None  # None where it is declined
    low: float | None = None  # 95 % interval
    high: float | None = None
    basis: Basis | None = None
    rules: Mapping[str, float] | None = None  # throughput by each rule
    declined: str = ""  # why it is not predicted
    figure: float | None = None  # of this count, which the prediction does not rest on

    @property
    def error(self) -> float | None:
        """The error of the prediction, over the figure."""
        if self.throughput is None or self.figure is None:
            return None
        return self.throughput / self.figure - 1


def curves(results: Iterable[Result]) -> list[KnownCurve]:
    """Group results with a number by environment, what they count, and curve."""
    grouped: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        if result.throughput is not None:
            grouped[result.environment.key, result.item, result.curve].append(result)
    made = []
    for group in grouped.values():
        fewest: dict[int, int] = {}
        for result in group:
            fewest[result.num_gpus] = min(result.hosts, fewest.get(result.num_gpus, result.hosts))
        of_curve = [result for result in group if result.hosts == fewest[result.num_gpus]]
        made.append(KnownCurve(results=tuple(sorted(of_curve, key=lambda result: result.num_gpus))))
    return made


def predict(curve: KnownCurve, num_gpus: int, beside: Sequence[KnownCurve]) -> Prediction:
    """Predict one count from the smaller ones; `beside` are all curves of the same results."""
    known = tuple(result for result in curve.results if result.num_gpus < num_gpus)
    smaller = {count: value for count, value in curve.throughput.items() if count < num_gpus}
    reason = _why_not(curve, smaller, num_gpus)
    carried: Carried | None = None
    if not reason:
        of_box = []
        for other in beside:
            if other.environment.key == curve.environment.key:
                values = other.throughput
                below = {count: value for count, value in values.items() if count < num_gpus}
                if below:
                    of_box.append(below)
        carried = carry(smaller, num_gpus, of_box, _fast_group(curve, num_gpus))
    first = curve.first
    return Prediction(
        environment=curve.environment.key,
        machine=curve.environment.machine,
        origin=curve.environment.origin,
        model=str(first.axes["model"]),
        strategy=first.way,
        setting=_shared(first),
        num_gpus=num_gpus,
        unit=first.unit,
        rests_on=tuple(result.trial_id for result in known),
        num_counts=len(smaller),
        throughput=carried.throughput if carried else None,
        low=carried.low if carried else None,
        high=carried.high if carried else None,
        basis=carried.basis if carried else None,
        rules=carried.rules if carried else None,
        declined=reason,
        figure=curve.throughput.get(num_gpus),
    )


def _shared(result: Result) -> dict[str, object]:
    """Return the axes of its curve, of a program those that programs have."""
    axes = setting(result)
    if not result.is_of_program:
        return axes
    spec = result.spec
    return {
        name: value
        for name, value in axes.items()
        if name not in AXES or not spec.lacks(AXES[name])
    }


def _why_not(curve: KnownCurve, smaller: Mapping[int, float], num_gpus: int) -> str:
    """Return why a count is not predicted, with what to do; empty where it is."""
    environment = curve.environment
    if environment.device_kind is DeviceKind.CPU_DEVICE:
        return "CPU devices share the cores of one machine: measure on GPUs"
    if curve.first.counts_steps:
        return "steps are counted, and a step may be larger on more GPUs: say items_per_step"
    if not smaller:
        return f"no trial of this curve has fewer than {num_gpus} GPUs: measure one"
    most = max(smaller)
    if num_gpus > MOST_TIMES * most:
        nearest = -(-num_gpus // MOST_TIMES)
        return (
            f"{num_gpus} GPUs are over {MOST_TIMES} times the {most} that were tried: measure on "
            f"{nearest} first"
        )
    there = environment.gpus.num if environment.gpus else 0
    if environment.hardware_profile:
        there = Hardware.from_json(environment.hardware_profile).num_gpus
    is_of_one_host = all(result.hosts == 1 for result in curve.results)
    if there and num_gpus > there and is_of_one_host:
        return f"{environment.host} has {there} GPUs, and the curve has no trial over several hosts"
    return ""


def _fast_group(curve: KnownCurve, num_gpus: int) -> int | None:
    """Return how many GPUs of the box reach each other by its fastest links: NVLinks, or those of
    one socket. None where no profile describes the box, and where variables are on the host.
    """
    axes = curve.first.axes
    box = known_box(curve.environment, num_gpus)
    if box is None or axes.get("local_parameter_device") == "cpu":
        return None
    if box.nvlink_gb_per_s is None:
        return box.gpus_per_socket
    by_ring = str(axes.get("all_reduce") or "nccl").startswith("nccl")
    return box.nvlink_clique if by_ring else None

"""Boxes with a planted cause of loss, of which only one replica and all together were measured.

Nothing is subtracted that would tell contention from communication: what tells them is how the
losses of several models and batches differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from analysis.explain.ablations import AblationFinder, exchanging_nothing
from analysis.explain.causes import Bound
from analysis.explain.explanations import explain_all
from analysis.explain.observed import NOTHING
from analysis.explain.verdicts import HEALTHY_FROM
from analysis.results import Environment, Result
from benchmarks.explaining.simulated import simulated_trial
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.records.references import Origin
from scalemark.records.trial import TrialSpec, strategy_name
from scalemark.stats import welch
from simulator.costs.box import profile
from simulator.costs.networks import Network, network
from simulator.costs.step import costs
from simulator.costs.work import Work

PROFILES = ("p100_pcie_8", "v100_pcie_8", "titanx_pcie_8", "k80_8")
BATCHES = {
    "alexnet": (128, 256, 512),
    "vgg16": (32, 64),
    "resnet50": (32, 64),
    "resnet101": (32, 64),
    "resnet152": (16, 32),
    "inception3": (32, 64),
    "googlenet": (64, 128),
}
NUM_GPUS = 8
NOISE = 0.01  # of a process's mean step
MEDIAN_LOSS = 0.3  # of the compute

Weight = Callable[[Network, float], float]
"""The share of a step that a cause takes, up to a factor, by the network and its compute time."""

CAUSES: Mapping[str, Weight] = {
    "bytes over the links": lambda net, _: net.num_parameters,
    "a share of the compute (power, memory)": lambda _, compute_s: compute_s,
    "a fixed time per step (host)": lambda _net, _compute_s: 1.0,
    "a time per kernel (host)": lambda net, _: net.num_operations,
}
COMMUNICATION = "bytes over the links"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Counts of verdicts on the trials of many boxes that lose more than a tenth."""

    cause: str
    num: int
    num_communication: int  # called communication-bound
    num_unknown: int
    num_elsewise: int  # called anything else


def told(cause: str, num_models: int, num_boxes: int, seed: int, *, num_repeats: int = 1) -> Told:
    """Ask about each trial on all GPUs of so many boxes."""
    random = np.random.default_rng(seed)
    bounds: list[Bound | None] = []
    for number in range(num_boxes):
        results = _box(random, cause, num_models, number, num_repeats)
        finder = AblationFinder(results)
        wide = [one for one in results if one.num_gpus > 1]
        found = explain_all(wide, finder, lambda _: NOTHING)
        bounds += [
            one.diagnosis.bound for one in found if (one.steps.efficiency or 1.0) < HEALTHY_FROM
        ]
    num_communication = bounds.count(Bound.COMMUNICATION)
    num_unknown = bounds.count(None)
    return Told(
        cause=cause,
        num=len(bounds),
        num_communication=num_communication,
        num_unknown=num_unknown,
        num_elsewise=len(bounds) - num_communication - num_unknown,
    )


def _box(
    random: np.random.Generator, cause: str, num_models: int, number: int, num_repeats: int
) -> list[Result]:
    """Return each model alone and on all GPUs; half of the bytes may hide behind the compute."""
    cells = [(model, batch) for model, batches in BATCHES.items() for batch in batches]
    chosen = random.choice(len(cells), size=num_models, replace=False)
    environment = _environment(str(random.choice(PROFILES)), number)
    alone = [_spec(*cells[place]) for place in chosen]
    compute = [_compute_s(spec, environment) for spec in alone]
    weights = [
        CAUSES[cause](network(spec.model), seconds)
        for spec, seconds in zip(alone, compute, strict=True)
    ]
    shares = np.array(weights) / np.array(compute)
    lost = shares * MEDIAN_LOSS / np.median(shares)
    if cause == COMMUNICATION:
        lost = np.maximum(0.0, lost - random.uniform(0, 0.5 * MEDIAN_LOSS))
    lost = lost + random.uniform(0, 0.05)
    results = []
    for spec, seconds, share in zip(alone, compute, lost, strict=True):
        wide = replace(spec, num_gpus=NUM_GPUS, **_NCCL)
        results.append(_result(spec, environment, seconds, random, num_repeats))
        results.append(_result(wide, environment, seconds * (1 + share), random, num_repeats))
    return results


_NCCL = {"variable_update": "replicated", "local_parameter_device": "gpu", "all_reduce": "nccl"}


def _spec(model: str, batch_size: int) -> TrialSpec:
    image_px = network(model).image_px
    return simulated_trial(
        model, num_gpus=1, **exchanging_nothing(), image_px=image_px, batch_size=batch_size
    )


def _environment(name: str, number: int) -> Environment:
    return Environment(
        key=f"{name}-{number}",
        host=f"simulated-{name}",
        machine=name,
        versions="cost model",
        device_kind=DeviceKind.SIMULATED_GPU,
        origin=Origin.SIMULATED,
        hardware_profile=profile(name).to_json(),
    )


def _compute_s(spec: TrialSpec, environment: Environment) -> float:
    return costs(Work.of(asdict(spec)), profile(environment.machine)).step_s


def _result(
    spec: TrialSpec,
    environment: Environment,
    step_s: float,
    random: np.random.Generator,
    num_repeats: int,
) -> Result:
    items = spec.num_gpus * spec.batch_size
    noisy = step_s * np.exp(random.normal(0, NOISE, num_repeats))
    repeats = tuple(float(items / seconds) for seconds in noisy)
    low, high = welch.interval(repeats) if num_repeats > 1 else (None, None)
    strategy = strategy_name(spec.variable_update, spec.local_parameter_device, spec.all_reduce)
    return Result(
        trial_id=spec.trial_id,
        environment=environment,
        axes=asdict(spec) | {"strategy": strategy},
        curve=spec.curve,
        attempt_ids=(),
        outcome=Outcome.COMPLETED,
        repeats=repeats,
        throughput=float(np.median(repeats)),
        low=low,
        high=high,
        is_valid=True,
    )

"""Simulated trials with a cause each, as the simulator makes them, and what `explain` says of them.

A case counts only where its cause is the truth by the cost model: `CLEAR` where it takes 15 % of
the step or more, and a third more than every other, and what is to be healthy or compute-bound
loses less than 8 %; `EVERY` from 10 % on, by any lead.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from analysis.explain.ablations import SYNTHETIC, AblationFinder, exchanging_nothing
from analysis.explain.causes import Bound
from analysis.explain.explanations import explain_all
from analysis.explain.verdicts import Confidence
from analysis.explain.waterfall import Observed
from analysis.results import Environment, Result
from benchmarks.step_times import step_times
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome, injected_text
from scalemark.records.references import Origin
from scalemark.records.trial import TrialSpec, strategy_name
from scalemark.stats import welch
from simulator.costs.box import Hardware, profile
from simulator.costs.step import Costs, costs, network_of
from simulator.run import NUM_ROUNDS, replica_factors, step_factors, with_injected

PROFILES = ("p100_pcie_8", "dgx1_p100", "dgx1_v100", "v100_pcie_8", "dgx_a100", "titanx_pcie_8")
BATCHES = {
    "alexnet": (256, 512),
    "vgg16": (32, 64),
    "resnet50": (32, 64, 128),
    "resnet152": (32,),
    "inception3": (32, 64),
}
IMAGE_PX = {"alexnet": 227, "inception3": 299, "resnet18_cifar": 32}
STRATEGIES: Mapping[str, Mapping[str, str]] = {
    "ps_cpu": {
        "variable_update": "parameter_server",
        "local_parameter_device": "cpu",
        "all_reduce": "none",
    },
    "replicated_nccl": {
        "variable_update": "replicated",
        "local_parameter_device": "gpu",
        "all_reduce": "nccl",
    },
    "replicated_pscpu": {
        "variable_update": "replicated",
        "local_parameter_device": "gpu",
        "all_reduce": "pscpu",
    },
}
NUM_STEPS = 50
REPEATS = 3
_TRIES = 5_000

Injected = dict[str, float]
Draw = Callable[[np.random.Generator, "Setting", float], "Setting"]
"""Of a random setting one with the cause, at least so many times what is injected of it where it is
clear.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A trial to be explained, and the hardware that it is simulated on."""

    spec: TrialSpec
    hardware: Hardware
    injected: Injected


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which cases are asked about; shares of the step."""

    matters: float  # the cause takes at least so much
    apart: float  # times every other cause
    quiet: float  # what is to be healthy or compute-bound loses less, to all causes together
    gentlest: float  # times what is injected at least


CLEAR = Selection(matters=0.15, apart=4 / 3, quiet=0.08, gentlest=1.0)
EVERY = Selection(matters=0.10, apart=1.0, quiet=0.10, gentlest=0.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A cause, how it is injected, and the verdict that is right."""

    bound: Bound
    draw: Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was said of one case."""

    kind: str
    wanted: Bound
    bound: Bound | None
    confidence: Confidence
    setting: Setting
    reported: str
    is_told: bool = False  # it is wrong, and right once the trials are run that it named as missing

    @property
    def is_right(self) -> bool:
        return self.bound is self.wanted


def answers(
    seed: int, num_cases: int, *, thinned: bool = False, selection: Selection = CLEAR
) -> list[Answer]:
    """As many of each kind. `thinned`: a quarter of the ablations is missing, and half of the cases
    have one process per trial.
    """
    random = np.random.default_rng(seed)
    each = num_cases // len(KINDS)
    return [
        _answer(name, drawn(name, random, selection), random, thinned)
        for name in KINDS
        for _ in range(each)
    ]


def _answer(name: str, setting: Setting, random: np.random.Generator, thinned: bool) -> Answer:
    simulated = simulated_around(setting, random, thinned=thinned)
    found = _asked_of(name, setting, simulated)
    if found.is_right or not thinned:
        return found
    missing = [spec for spec in ablations(setting.spec) if spec.trial_id not in simulated]
    # Draws of its own, so that the next case is the same whether this one is right or not.
    (apart,) = random.spawn(1)
    num_repeats = len(simulated[setting.spec.trial_id][0].repeats)
    completed = simulated | _simulated_all(setting, missing, apart, num_repeats)
    return replace(found, is_told=_asked_of(name, setting, completed).is_right)


Simulated = dict[str, tuple[Result, Observed]]
"""Trials by their identity, the target first."""


def simulated_around(setting: Setting, random: np.random.Generator, *, thinned: bool) -> Simulated:
    """Simulate a target and its ablations, of which a quarter is missing where they are thinned."""
    num_repeats = 1 if thinned and random.random() < 0.5 else REPEATS
    specs = [setting.spec]
    specs += [spec for spec in ablations(setting.spec) if not thinned or random.random() > 0.25]
    return _simulated_all(setting, specs, random, num_repeats)


def _simulated_all(
    setting: Setting, specs: Sequence[TrialSpec], random: np.random.Generator, num_repeats: int
) -> Simulated:
    return {
        spec.trial_id: _simulated(replace(setting, spec=spec), random, num_repeats)
        for spec in specs
    }


def _asked_of(name: str, setting: Setting, simulated: Simulated) -> Answer:
    results = [result for result, _ in simulated.values()]
    return asked(
        name,
        setting,
        results[0],
        AblationFinder(results),
        lambda result: simulated[result.trial_id][1],
    )


def asked(
    name: str,
    setting: Setting,
    target: Result,
    finder: AblationFinder,
    observe: Callable[[Result], Observed],
) -> Answer:
    """What is said of one case, beside what is right."""
    found = explain_all([target], finder, observe)[0].diagnosis
    return Answer(
        kind=name,
        wanted=KINDS[name].bound,
        bound=found.bound,
        confidence=found.confidence,
        setting=setting,
        reported="; ".join([found.why, *found.doubts]),
    )


def ablations(spec: TrialSpec) -> Iterator[TrialSpec]:
    """What experiment=explain makes around a trial, and a larger batch."""
    synthetic = replace(spec, **SYNTHETIC)  # type: ignore[arg-type]
    each = replace(synthetic, **exchanging_nothing())  # type: ignore[arg-type]
    alone = replace(each, num_gpus=1)
    made = [
        replace(spec, distortions=False),
        synthetic,
        replace(synthetic, steps_per_execution=10),
        replace(each, replica_times=True),
        alone,
        replace(alone, batch_size=2 * spec.batch_size),
        replace(each, model="trivial"),
    ]
    yield from {one.trial_id: one for one in made if one.trial_id != spec.trial_id}.values()


def _simulated(
    setting: Setting, random: np.random.Generator, num_repeats: int
) -> tuple[Result, Observed]:
    truth, spec = _truth(setting), setting.spec
    noise = {"noise": 0.02, "process_noise": 0.005, **setting.injected}
    times = [
        statistics.fmean(step_times(random, truth.step_s, noise, NUM_STEPS))
        for _ in range(num_repeats)
    ]
    repeats = tuple(truth.items / seconds for seconds in times)
    low, high = (
        welch.interval(repeats) if num_repeats > 1 else (0.995 * repeats[0], 1.005 * repeats[0])
    )
    result = Result(
        trial_id=spec.trial_id,
        environment=Environment(
            key=setting.hardware.name,
            host=f"simulated-{setting.hardware.name}",
            machine=setting.hardware.name,
            versions="cost model",
            device_kind=DeviceKind.SIMULATED_GPU,
            origin=Origin.SIMULATED,
            hardware_profile=setting.hardware.to_json(),
        ),
        axes=asdict(spec)
        | {
            "strategy": strategy_name(
                spec.variable_update, spec.local_parameter_device, spec.all_reduce
            )
        },
        curve=spec.curve,
        attempt_ids=(),
        outcome=Outcome.COMPLETED,
        repeats=repeats,
        throughput=statistics.median(repeats),
        low=low,
        high=high,
    )
    replica_times = ()
    if spec.replica_times:
        replica_times = tuple(_replica_times(setting, truth, random) for _ in repeats)
    return result, replace(_seen(setting, truth), replica_times=replica_times)


def _replica_times(
    setting: Setting, truth: Costs, random: np.random.Generator
) -> dict[str, list[float]]:
    """As the simulator plays them."""
    factors = replica_factors(setting.injected, setting.spec.num_gpus)
    usual_s = truth.compute_s / max(factors)
    times = {}
    for number, factor in enumerate(factors):
        rounds = itertools.islice(step_factors(random, setting.injected, NUM_ROUNDS), NUM_ROUNDS)
        times[f"GPU:{number}"] = [usual_s * factor * one for one in rounds]
    return times


def _seen(setting: Setting, truth: Costs) -> Observed:
    """As the simulator tells it beside a measurement."""
    lost = setting.injected.get("throttling")
    return Observed(
        data_wait_share=max(0.0, truth.step_s - truth.busy_s) / truth.step_s,
        cores_taken=setting.injected.get("contention", 0.0),
        num_cores=setting.hardware.num_cores,
        clock_loss=lost or 0.0,
        throttled={"sw_thermal_slowdown": ("GPU-0",)} if lost else {},
        num_parameters=network_of(setting.spec).num_parameters,
        doubts=("GPU-0 was throttled: sw_thermal_slowdown",) if lost else (),
    )


def _truth(setting: Setting) -> Costs:
    spec = setting.spec
    return with_injected(costs(spec, setting.hardware), setting.injected, spec)


def shares(setting: Setting) -> dict[Bound, float]:
    """By the cost model, of the target's step: what each cause takes."""
    truth, spec = _truth(setting), setting.spec
    free = _truth(replace(setting, injected={}))
    quiet = _truth(
        replace(
            setting,
            injected={name: of for name, of in setting.injected.items() if name != "contention"},
        )
    )
    alone = _truth(
        replace(setting, spec=replace(spec, num_gpus=1, **SYNTHETIC | exchanging_nothing()))
    )  # type: ignore[arg-type]
    together = _truth(replace(setting, spec=replace(spec, **SYNTHETIC | exchanging_nothing())))  # type: ignore[arg-type]
    larger = _truth(
        replace(
            setting,
            spec=replace(
                spec, num_gpus=1, batch_size=2 * spec.batch_size, **SYNTHETIC | exchanging_nothing()
            ),
        )  # type: ignore[arg-type]
    )
    contended_s = truth.step_s - quiet.step_s
    alike = replace(setting, injected=_alike(setting.injected))
    together_alike = _truth(replace(alike, spec=replace(spec, **SYNTHETIC | exchanging_nothing())))  # type: ignore[arg-type]
    waiting_s = together.step_s - together_alike.step_s
    seconds = {
        Bound.INPUT: truth.step_s - truth.busy_s - contended_s,
        Bound.COMMUNICATION: truth.exposed_s
        + truth.sync_s
        + max(0.0, truth.update_s - alone.update_s),
        Bound.LAUNCH: max(
            truth.launch_s, 2 * alone.step_s - larger.step_s if spec.batch_size < _SMALL else 0.0
        ),
        Bound.CONTENTION: contended_s + together.step_s - alone.step_s - waiting_s,
        Bound.SLOW_REPLICA: waiting_s,
        Bound.COMPUTE: truth.compute_s - free.compute_s - waiting_s,
    }
    return {bound: max(0.0, of) / truth.step_s for bound, of in seconds.items()}


def _alike(injected: Injected) -> Injected:
    """Return what is injected without a slow replica."""
    return {name: of for name, of in injected.items() if not name.startswith("slow_replica")}


_SMALL = 16  # images: below, what does not grow with the batch is launching


def _is_true(bound: Bound, setting: Setting, selection: Selection) -> bool:
    found = shares(setting)
    if bound is Bound.HEALTHY or (bound is Bound.COMPUTE and not setting.injected):
        return sum(found.values()) < selection.quiet
    others = max(share for other, share in found.items() if other is not bound)
    return found[bound] >= selection.matters and found[bound] >= selection.apart * others


def drawn(name: str, random: np.random.Generator, selection: Selection) -> Setting:
    """Rejects until the kind's cause is the truth."""
    kind = KINDS[name]
    for _ in range(_TRIES):
        setting = kind.draw(random, any_setting(random), selection.gentlest)
        if fits(setting) and _is_true(kind.bound, setting, selection):
            return with_noise(setting, random)
    raise RuntimeError(f"{name}: none of {_TRIES} settings has it")


def fits(setting: Setting) -> bool:
    """Return whether a GPU has memory enough."""
    return _truth(setting).memory_bytes / 2**30 <= setting.hardware.memory_gib


def with_noise(setting: Setting, random: np.random.Generator) -> Setting:
    noise = {
        "noise": round(float(random.uniform(0.01, 0.05)), 3),
        "process_noise": round(float(random.uniform(0.002, 0.015)), 4),
    }
    injected = setting.injected | noise
    spec = replace(setting.spec, injected=injected_text(injected))
    return replace(setting, spec=spec, injected=injected)


def simulated_trial(model: str, **axes: Any) -> TrialSpec:
    """Return an fp32 trial of a simulated GPU on synthetic data, with other axes as given."""
    return TrialSpec(
        model=model,
        device_kind=DeviceKind.SIMULATED_GPU,
        precision="fp32",
        optimizer="momentum",
        learning_rate=0.01,
        momentum=0.9,
        weight_decay=4e-5,
        data="synthetic",
        distortions=False,
        data_format="NCHW",
        num_classes=1001,
        min_warm_up_steps=10,
        num_steps=100,
        seed=1,
        **axes,
    )


def any_setting(random: np.random.Generator) -> Setting:
    model = str(random.choice(list(BATCHES)))
    spec = simulated_trial(
        model,
        num_gpus=int(random.choice([1, 2, 4, 8])),
        **STRATEGIES[str(random.choice(list(STRATEGIES)))],
        image_px=IMAGE_PX.get(model, 224),
        batch_size=int(random.choice(BATCHES[model])),
    )
    return Setting(spec=spec, hardware=profile(str(random.choice(PROFILES))), injected={})


def _changed(setting: Setting, **changes: Any) -> Setting:
    return replace(setting, spec=replace(setting.spec, **changes))


def _several(random: np.random.Generator, setting: Setting, gentlest: float = 1.0) -> Setting:
    return _changed(setting, num_gpus=int(random.choice([2, 4, 8])))


def _read(random: np.random.Generator, setting: Setting) -> Setting:
    """Photographs, and cores enough to make batches in time."""
    fast = replace(setting.hardware, decode_images_per_s_per_core=400.0)
    return replace(
        _changed(setting, data="photos", distortions=bool(random.random() < 0.5)), hardware=fast
    )


def _of_step(
    random: np.random.Generator, setting: Setting, lowest: float, highest: float = 1.5
) -> float:
    return float(random.uniform(lowest, highest)) * _truth(setting).step_s


def _slow_input(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    read = _read(random, setting)
    return replace(read, injected={"input_s": _of_step(random, read, 0.5 * gentlest, 2.5)})


def _few_cores(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    read = _changed(setting, data="photos", distortions=True)
    return replace(read, hardware=replace(read.hardware, num_cores=int(random.integers(2, 12))))


def _slow_reduction(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    several = _several(random, setting)
    return replace(several, injected={"reduction_s": _of_step(random, several, 0.2 * gentlest)})


def _slow_links(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    several = _several(random, setting)
    slow = float(random.uniform(0.5, 3.0 / gentlest))
    links = {
        "pcie_gb_per_s": slow,
        "nvlink_gb_per_s": None,
        "nvlink_clique": 0,
        "socket_gb_per_s": slow,
    }
    return replace(several, hardware=replace(several.hardware, **links))


def _slow_launches(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    return replace(setting, injected={"launch_s": _of_step(random, setting, 0.2 * gentlest)})


def _tiny(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    model = str(random.choice(["trivial", "resnet18_cifar", "resnet50"]))
    changes = {
        "model": model,
        "image_px": 32 if model == "resnet18_cifar" else 64,
        "num_classes": 1001,
    }
    return _changed(
        setting,
        num_gpus=int(random.choice([1, 2])),
        batch_size=int(random.choice([1, 2, 4])),
        **changes,
    )


def _taken_cores(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    read = _changed(setting, data="photos", distortions=True)
    just_enough = _truth(read).busy_s / max(1e-9, _truth(read).input_s)
    cores = max(1, round(read.hardware.num_cores / just_enough * float(random.uniform(1.05, 1.6))))
    hardware = replace(read.hardware, num_cores=cores)
    return replace(
        read, hardware=hardware, injected={"contention": round(float(random.uniform(0.3, 0.8)), 2)}
    )


def _throttled(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    return replace(
        setting,
        injected={"throttling": round(float(random.uniform(max(0.1, 0.2 * gentlest), 0.6)), 2)},
    )


def _slow_replica(random: np.random.Generator, setting: Setting, gentlest: float) -> Setting:
    several = _several(random, setting)
    slow_by = round(float(random.uniform(max(0.12, 0.2 * gentlest), 0.8)), 2)
    # not the first: alone, too, that one would be slow, and all replicas as fast as one
    slow = int(random.integers(1, several.spec.num_gpus))
    return replace(several, injected={"slow_replica": slow, "slow_replica_by": slow_by})


KINDS: Mapping[str, Kind] = {
    "nothing, several GPUs": Kind(bound=Bound.HEALTHY, draw=_several),
    "nothing, one GPU": Kind(
        bound=Bound.COMPUTE, draw=lambda random, setting, gentlest: _changed(setting, num_gpus=1)
    ),
    "input_s": Kind(bound=Bound.INPUT, draw=_slow_input),
    "few cores to decode": Kind(bound=Bound.INPUT, draw=_few_cores),
    "reduction_s": Kind(bound=Bound.COMMUNICATION, draw=_slow_reduction),
    "slow links": Kind(bound=Bound.COMMUNICATION, draw=_slow_links),
    "launch_s": Kind(bound=Bound.LAUNCH, draw=_slow_launches),
    "tiny models": Kind(bound=Bound.LAUNCH, draw=_tiny),
    "contention": Kind(bound=Bound.CONTENTION, draw=_taken_cores),
    "throttling": Kind(bound=Bound.COMPUTE, draw=_throttled),
    "slow replica": Kind(bound=Bound.SLOW_REPLICA, draw=_slow_replica),
}

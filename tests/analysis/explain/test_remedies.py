"""Every remedy is a trial that can be run: its command composes to the same trial with what it changes."""

from dataclasses import replace

import pytest

from analysis.explain.causes import Bound
from analysis.explain.verdicts import remedies
from analysis.results import Environment, Gpus
from conf.resolve import resolve
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.records.switches import unknown_to
from simulator.costs.box import profile
from sweeper.grid.compose import expand
from tests.analysis.explain.explained import (
    CPU_DEVICES,
    DISTORTED,
    GPUS,
    INDEPENDENT,
    PS,
    explained,
    finder,
    result,
)
from tests.analysis.run_by import arguments
from tests.composing import composing


def of(compute_capability: str) -> Environment:
    return replace(GPUS, gpus=Gpus(name="one", num=8, compute_capability=compute_capability))


SIMULATED_H100S = replace(
    GPUS,
    device_kind=DeviceKind.SIMULATED_GPU,
    origin=Origin.SIMULATED,
    hardware_profile=profile("h100_8").to_json(),
)
FIT = {"variable_update": "fit", "all_reduce": "collective"}  # refuses most of them
TARGETS = [
    {},
    {"all_reduce": "pscpu", "gradient_repacking": 8},
    {"variable_update": "mirrored", "all_reduce": "hierarchical_copy"},
    FIT,
    {**PS, "staged_vars": True},
    {**DISTORTED, "cache": False, "data_threads": 1},
    INDEPENDENT,
]


@pytest.fixture(scope="module")
def run():
    """run(command, target, kind): the trial that it makes of one. Raises what refuses it."""
    with composing() as (composer, loader):

        def run(command, target, kind):
            (cell,) = expand(arguments(command, [target]), loader)
            return resolve(
                composer.compose(cell), kind, 8, (9, 0) if kind is DeviceKind.GPU else None
            )

        yield run


@pytest.mark.parametrize(
    ("bound", "target"),
    [
        (bound, target)
        for bound in Bound
        if bound is not Bound.SLOW_REPLICA  # no trial mends a GPU
        for target in TARGETS
        if bound is not Bound.INPUT or "data" in target
    ],
    ids=str,
)
@pytest.mark.parametrize("environment", [GPUS, CPU_DEVICES], ids=["gpus", "CPU devices"])
def test_a_remedy_can_be_run(run, bound, target, environment):
    changes = {"num_classes": 1001, "num_gpus": 2, "image_px": 64, **target}
    if environment is CPU_DEVICES:
        changes["data_format"] = "NHWC"
    has_none = FIT.items() <= changes.items()
    target = result(100, environment, **changes)
    found = remedies(bound, target, num_cores=8)
    assert found or has_none or (bound is Bound.CONTENTION and environment is CPU_DEVICES)
    for remedy in found:
        spec = run(remedy.command, target, environment.device_kind)
        for change in remedy.change.split():
            axis, _, value = change.partition("=")
            assert str(spec.axes[axis.lstrip("+")]).lower() == value.lower()


def test_the_guides_remedies_are_there():
    changes = {
        bound: [one.change for one in remedies(bound, result(100, num_gpus=8, **DISTORTED), 8)]
        for bound in Bound
    }
    assert changes[Bound.INPUT] == [
        "prefetch=8",
        "distortions=false",
        "+env.TF_GPU_THREAD_MODE=gpu_private",
    ]
    assert changes[Bound.LAUNCH][:2] == ["batch_size=128", "xla=on"]
    assert changes[Bound.COMMUNICATION][:3] == [
        "batch_size=64",
        "gradient_accumulation=4",
        "all_reduce=nccl",
    ]
    assert changes[Bound.CONTENTION][0] == "+env.TF_GPU_THREAD_MODE=gpu_private"
    assert changes[Bound.COMPUTE] == [
        "precision=fp16 loss_scale=dynamic data_format=NHWC",
        "xla=on",
    ]


@pytest.mark.parametrize(
    ("place", "changes", "change"),
    [
        (of("7.0"), {}, "precision=fp16 loss_scale=dynamic data_format=NHWC"),
        (of("8.0"), {}, "precision=bf16 loss_scale=none data_format=NHWC"),
        (of("10.0"), {}, "precision=bf16 loss_scale=none data_format=NHWC"),
        (of("7.5"), INDEPENDENT, "precision=fp16 loss_scale=none data_format=NHWC"),
        (SIMULATED_H100S, {}, "precision=bf16 loss_scale=none data_format=NHWC"),
    ],
    ids=lambda given: getattr(given, "key", str(given)),
)
def test_half_precision_is_that_which_auto_chooses(place, changes, change):
    """A bug: it was fp16 with a loss scale on GPUs that have bf16, too."""
    assert remedies(Bound.COMPUTE, result(100, place, **changes))[0].change == change


def test_without_a_verdict_there_is_no_remedy():
    assert remedies(None, result(100)) == []


def test_a_simulated_trial_is_reported_no_remedy_that_cannot_be_simulated():
    simulated = replace(
        GPUS, device_kind=DeviceKind.SIMULATED_GPU, hardware_profile=profile("dgx1_p100").to_json()
    )
    found = {
        change
        for bound in Bound
        for change in remedies(bound, result(100, simulated, num_gpus=8, **DISTORTED), 8)
    }
    axes = {change.partition("=")[0] for one in found for change in one.change.split()}
    assert {"batch_size", "steps_per_execution", "distortions"} <= axes
    assert axes.isdisjoint(unknown_to(Engine.simulated))


def test_more_steps_in_a_call_are_for_one_gpu_of_a_process():
    """Several of them would wait for the host after each step."""

    def is_offered(**axes):
        found = remedies(Bound.LAUNCH, result(100, **axes), 8)
        return "steps_per_execution=10" in [one.change for one in found]

    assert is_offered(num_gpus=1)
    assert is_offered(num_gpus=8, variable_update="process_per_gpu", all_reduce="nccl")
    assert not is_offered(num_gpus=8)


def test_refuted_remedies_are_not_offered_and_others_run_as_often():
    target = result(100, CPU_DEVICES, num_gpus=8)
    plain = remedies(Bound.CONTENTION, target, 8)
    assert [one.change for one in plain if "steps_per_execution" in one.change] == [
        "steps_per_execution=10"
    ]
    assert all(one.command.endswith(" sweep.repeats=3") for one in plain)
    assert not any(
        "steps_per_execution" in one.change
        for one in remedies(Bound.CONTENTION, target, 8, refuted=("steps_per_execution",))
    )


def test_a_remedy_of_a_target_that_was_judged_runs_a_few_times():
    """A bug: it was to run 35 times, as its target had."""
    judged = replace(result(100, CPU_DEVICES, num_gpus=8), repeats=(100.0,) * 35)
    found = remedies(Bound.CONTENTION, judged, 8)
    assert found
    assert all(each.command.endswith(" sweep.repeats=3") for each in found)


def test_a_remedy_that_is_an_ablation_already_is_not_proposed():
    target, *others = finder(100, 100, 100, 150, 300)
    assert "distortions=false" not in [one.change for one in explained(target, *others).remedies]
    undistorted = [one for one in others if one.axes["data"] == "photos"]
    kept = [one for one in others if one not in undistorted]
    assert undistorted
    assert "distortions=false" in [one.change for one in explained(target, *kept).remedies]

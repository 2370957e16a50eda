"""Verdicts name what holds a trial back, and are sure only of what was measured for itself."""

from dataclasses import replace

import pytest

from analysis.explain.ablations import Ablation
from analysis.explain.causes import Bound
from analysis.explain.verdicts import Confidence
from analysis.explain.waterfall import Observed
from analysis.selection import Selection, load
from scalemark.records.references import Origin
from tests.analysis.explain.explained import (
    BATCH,
    CPU_DEVICES,
    DISTORTED,
    ELSEWHERE,
    INDEPENDENT,
    PHOTOS,
    PS,
    explained,
    finder,
    result,
)

TWICE_THE_BATCH = result(199.5, batch_size=2 * BATCH, **INDEPENDENT)
"""Of a step of 100 ms almost nothing is fixed."""
NOISY = (0.7, 1.0, 1.3)
CANNOT_TELL = (None, Confidence.CANNOT_TELL)
LIKELY, SURE = Confidence.LIKELY, Confidence.SURE


def diagnosed(*results, **seen):
    """`seen` is what was observed of the target, the first."""
    observed = {results[0].trial_id: Observed(**seen)} if seen else {}
    return explained(*results, seen=observed).diagnosis


def verdict(*results, **seen):
    diagnosis = diagnosed(*results, **seen)
    return diagnosis.bound, diagnosis.confidence


@pytest.mark.parametrize(
    ("ablations", "bound"),
    [
        ((100, 101, 102), Bound.HEALTHY),
        ((100, 101, 150), Bound.COMMUNICATION),
        ((100, 150, 152), Bound.CONTENTION),
        ((100, 101, 104, 160), Bound.INPUT),
        ((100, 101, 104, 106, 160), Bound.INPUT),
        ((100, 101, 104, 113, 121), Bound.INPUT),  # reading and distorting together
    ],
)
def test_a_whole_set_of_ablations_with_repeats_makes_a_sure_verdict(ablations, bound):
    assert verdict(*finder(*ablations), TWICE_THE_BATCH) == (bound, SURE)


def of_two(alone, larger, **changes):
    return [result(alone, **changes), result(larger, **changes | {"batch_size": 2 * BATCH})]


CASES = {
    "calls cost much": (finder(100, 101, 102, launching=40), {}, (Bound.LAUNCH, SURE)),
    # 8 passes through 520 MB at 200 GB/s are 21 ms
    "the step hardly grows with the batch": (of_two(20, 21), {}, (Bound.LAUNCH, SURE)),
    "but its weights explain that": (
        of_two(20, 21),
        {"num_parameters": 130_000_000},
        (Bound.COMPUTE, LIKELY),
    ),
    "14 of 20 ms are fixed": (of_two(20, 26), {}, (Bound.LAUNCH, SURE)),
    "6 of 20 ms are fixed": (of_two(20, 34), {}, (Bound.LAUNCH, LIKELY)),
    "the trivial model": ([result(3, model="trivial")], {}, (Bound.LAUNCH, SURE)),
    "the trivial model without its ideal": (
        [result(57, num_gpus=8, model="trivial"), result(3, model="trivial", **INDEPENDENT)],
        {},
        CANNOT_TELL,
    ),
    "the trivial model waits for batches": (
        [result(30, model="trivial", **PHOTOS)],
        {"data_wait_share": 0.8},
        (Bound.INPUT, LIKELY),
    ),
    "the trivial model hardly waits": (
        [result(30, model="trivial", **PHOTOS)],
        {"data_wait_share": 0.1},
        (Bound.LAUNCH, LIKELY),
    ),
    "not twice the trivial model": (
        [result(5, batch_size=1), result(3, model="trivial", **INDEPENDENT)],
        {},
        (Bound.LAUNCH, SURE),
    ),
    "one replica whose own work takes the time": (
        [*of_two(100, 199), result(99.9, steps_per_execution=10)],
        {},
        (Bound.COMPUTE, SURE),
    ),
    "few kernels in a long step": (
        [result(100), result(99.9, steps_per_execution=10)],
        {},
        (Bound.COMPUTE, LIKELY),
    ),
    "many kernels in a short step": (
        [result(9, batch_size=1), result(8.99, batch_size=1, steps_per_execution=10)],
        {},
        CANNOT_TELL,
    ),
    "nothing limits what launching costs": ([result(9, batch_size=1)], {}, CANNOT_TELL),
    "waiting is seen without any other trial": (
        [result(100, num_gpus=8, **PHOTOS)],
        {"data_wait_share": 0.6},
        (Bound.INPUT, LIKELY),
    ),
    "real data without a synthetic trial": (
        [result(200, num_gpus=8, **PHOTOS), result(100, **INDEPENDENT)],
        {},
        CANNOT_TELL,
    ),
    "real data that is waited for": (
        [result(200, num_gpus=8, **PHOTOS), result(100, **INDEPENDENT)],
        {"data_wait_share": 0.45},
        (Bound.INPUT, LIKELY),
    ),
    "real data that comes in time": (
        [result(200, num_gpus=8, **PHOTOS), result(100, **INDEPENDENT)],
        {"data_wait_share": 0.01},
        CANNOT_TELL,
    ),
    "replicas that exchange nothing": (
        [result(200, num_gpus=8, **PHOTOS, **INDEPENDENT), result(100, **INDEPENDENT)],
        {"data_wait_share": 0.05},
        (Bound.CONTENTION, LIKELY),
    ),
    "another machine's trial does not count": (
        [result(150, num_gpus=8), result(100, ELSEWHERE, **INDEPENDENT)],
        {},
        CANNOT_TELL,
    ),
    "CPU devices against as many of them": (
        [
            *finder(10, 80, 160, num_gpus=8, environment=CPU_DEVICES),
            result(19.9, CPU_DEVICES, batch_size=2 * BATCH, **INDEPENDENT),
        ],
        {},
        (Bound.COMMUNICATION, SURE),
    ),
    "others take the cores of CPU devices": (
        finder(10, 80, 82, num_gpus=8, environment=CPU_DEVICES),
        {"cores_taken": 0.4},
        (Bound.CONTENTION, LIKELY),
    ),
    "late batches while others take the cores": (
        finder(100, 101, 102, 160),
        {"cores_taken": 0.4},
        (Bound.CONTENTION, LIKELY),
    ),
    "late batches while others take few": (
        finder(100, 101, 102, 160),
        {"cores_taken": 0.05},
        (Bound.INPUT, SURE),
    ),
    "launching from cores that others take": (
        finder(100, 101, 102, launching=40),
        {"cores_taken": 0.4},
        (Bound.LAUNCH, LIKELY),
    ),
    "most of the step, whatever launching costs": (
        finder(20, 21, 60)[:-1],
        {},
        (Bound.COMMUNICATION, SURE),
    ),
    "less of it, with launching unknown": (
        finder(20, 21, 30)[:-1],
        {},
        (Bound.COMMUNICATION, LIKELY),
    ),
    "a parameter server alone communicates with the host": (
        [
            result(150, **PS),
            result(100, **INDEPENDENT),
            result(149.9, steps_per_execution=10, **PS),
            result(0.1, model="trivial", **INDEPENDENT),
        ],
        {},
        (Bound.COMMUNICATION, SURE),
    ),
    "one alone that fetches its variables leaves doubt": (
        [
            result(101, num_gpus=8, **PS),
            result(100, **PS),
            result(199.5, batch_size=2 * BATCH, **PS),
        ],
        {},
        (Bound.HEALTHY, LIKELY),
    ),
    "a fault injected where it slows nothing": (
        [
            result(160, num_gpus=8, injected="reduction_s=0.05"),
            result(100, **INDEPENDENT),
            result(101, num_gpus=8, injected="reduction_s=0.05", **INDEPENDENT),
        ],
        {},
        (Bound.COMMUNICATION, LIKELY),
    ),
    "a slow input beside a clean synthetic trial": (
        [
            result(160, num_gpus=8, injected="input_s=0.05", **PHOTOS),
            result(100, **INDEPENDENT),
            result(101, num_gpus=8, **INDEPENDENT),
            result(102, num_gpus=8),
        ],
        {},
        (Bound.INPUT, LIKELY),
    ),
    "no cause of 10 %": (finder(100, 106, 115), {}, CANNOT_TELL),
    "what one way cannot tell from nothing": (
        [result(10, batch_size=1), result(12, factors=NOISY, batch_size=2)],
        {},
        CANNOT_TELL,
    ),
    "another way may": (
        [
            result(10, batch_size=1),
            result(12, factors=NOISY, batch_size=2),
            result(6, model="trivial", **INDEPENDENT),
        ],
        {},
        (Bound.LAUNCH, LIKELY),
    ),
}


@pytest.mark.parametrize(("results", "seen", "wanted"), CASES.values(), ids=CASES)
def test_what_holds_a_trial_back_is_named_as_surely_as_it_is_known(results, seen, wanted):
    assert verdict(*results, **seen) == wanted


TARGET, *OTHERS = finder(100, 101, 150)
LATE = finder(100, 101, 102, 160)
MANY = result(70, num_gpus=8, steps_per_execution=10)
DOUBTS = [
    (
        [*finder(100, 101, 150, factors=(1.0,)), TWICE_THE_BATCH],
        {},
        Bound.COMMUNICATION,
        "single runs: sweep.repeats=3 would show how far others differ",
    ),
    (
        finder(100, 101, 102, launching=40),
        {"cores_taken": 0.4},
        Bound.LAUNCH,
        "other programs took 40% of the cores",
    ),
    (
        [*finder(100, 101, 118, factors=(0.97, 1.0, 1.03)), TWICE_THE_BATCH],
        {},
        Bound.COMMUNICATION,
        "its interval reaches below 10% of the step",
    ),
    (
        [TARGET, *OTHERS[:-1]],
        {},
        Bound.COMMUNICATION,
        "without a larger batch nothing shows what is fixed in a step",
    ),
    (
        [result(100, num_gpus=8), MANY],
        {},
        Bound.LAUNCH,
        "missing to tell it from other causes: alone and independent",
    ),
    (
        [result(100, num_gpus=8)],
        {"clock_loss": 0.3},
        Bound.COMPUTE,
        "missing to tell it from other causes: alone and independent",
    ),
    (
        LATE,
        {"cores_taken": 0.4},
        Bound.CONTENTION,
        "its input may be as slow by itself: again without other programs would tell",
    ),
    (
        [TARGET, *OTHERS],
        {"doubts": ("steps became 9% slower",)},
        Bound.COMMUNICATION,
        "the trial that isolates reducing is in doubt: steps became 9% slower",
    ),
    (
        [
            result(110, **PHOTOS),
            result(100, **INDEPENDENT),
            result(100),
            result(99.9, steps_per_execution=10),
            TWICE_THE_BATCH,
        ],
        {},
        Bound.COMPUTE,
        "the interval of input reaches 10% of the step",
    ),
]


@pytest.mark.parametrize(("results", "seen", "bound", "doubt"), DOUBTS)
def test_a_likely_verdict_says_why_it_is_not_sure(results, seen, bound, doubt):
    diagnosis = diagnosed(*results, **seen)
    assert (diagnosis.bound, diagnosis.confidence) == (bound, LIKELY)
    assert doubt in diagnosis.doubts


@pytest.mark.parametrize("fixed", [8, 12, 17, 22, 24])
@pytest.mark.parametrize("num_gpus", [1, 8])
def test_fixed_costs_that_may_matter_leave_nothing_sure(fixed, num_gpus):
    alone = result(100, **INDEPENDENT)
    larger = result(200 - fixed, batch_size=2 * BATCH, **INDEPENDENT)
    if num_gpus == 1:
        target, others = result(100), [result(99.9, steps_per_execution=10)]
    else:
        target, *others, _ = finder(100, 101, 102)
    diagnosis = diagnosed(target, alone, larger, *others)
    bound = Bound.COMPUTE if num_gpus == 1 else Bound.HEALTHY
    assert (diagnosis.bound, diagnosis.confidence) == (bound, LIKELY)
    (doubt,) = diagnosis.doubts
    assert int(doubt.removeprefix("up to ").partition("%")[0]) > fixed


def test_fixed_costs_do_not_matter_where_a_cause_surely_takes_more():
    larger = result(180, batch_size=2 * BATCH, **INDEPENDENT)
    assert verdict(*finder(100, 101, 120)[:-1], larger) == (Bound.COMMUNICATION, LIKELY)
    assert verdict(*finder(100, 101, 150)[:-1], larger) == (Bound.COMMUNICATION, SURE)


def test_without_independent_replicas_a_loss_alone_is_not_called_communication():
    target, alone, _, many, _ = finder(100, 101, 150)
    found = explained(target, alone, many)
    assert (found.diagnosis.bound, found.remedies) == (None, ())
    assert found.diagnosis.why == (
        "33% of the step is lost to contention or communication (50 ms); independent replicas "
        "would tell"
    )
    of_target = f"scalemark sweep from={target.trial_id[:8]}"
    assert found.missing[Ablation.INDEPENDENT] == f"{of_target} strategy=independent"


def test_one_trial_only_is_no_ground_for_a_verdict():
    found = explained(result(100, num_gpus=8))
    assert (found.diagnosis.bound, found.diagnosis.confidence) == CANNOT_TELL
    assert found.diagnosis.why == "nothing to compare it with; one replica alone would tell"
    assert found.missing.keys() == {
        Ablation.ALONE,
        Ablation.INDEPENDENT,
        Ablation.MANY_STEPS,
        Ablation.LARGER_BATCH,
        Ablation.FLOOR,
    }
    assert all(command.startswith("scalemark sweep ") for command in found.missing.values())


def test_what_a_loop_of_others_took_is_not_compared_with_ours():
    target, *others = finder(100, 101, 150)
    fit = replace(target, axes=target.axes | {"variable_update": "fit"})
    found = explained(fit, *others)
    assert found.diagnosis.why == "its loop is not ours, and no trial of ours takes that apart"
    assert (found.diagnosis.bound, found.missing) == (None, {})


def test_missing_trials_of_strong_scaling_have_the_batch_of_a_replica():
    found = explained(result(100, num_gpus=8, scaling="strong"))
    command = found.missing[Ablation.ALONE]
    assert f" batch_size={BATCH} " in command
    assert "scaling=strong" not in command


def test_a_wait_for_distortions_is_no_part_of_a_step_without_them():
    """A bug: communication was less by that wait, and a smaller input was sure."""
    target = result(300, num_gpus=8, **DISTORTED)
    others = [
        result(200, num_gpus=8, **PHOTOS),
        result(81, num_gpus=8, **INDEPENDENT),
        result(80, **INDEPENDENT),
        result(159, batch_size=2 * BATCH, **INDEPENDENT),
    ]
    diagnosis = diagnosed(target, *others, data_wait_share=1 / 3)
    assert (diagnosis.bound, diagnosis.confidence) == (Bound.COMMUNICATION, LIKELY)
    milliseconds = [round(1e3 * cause.seconds.value) for cause in diagnosis.causes]
    assert milliseconds[:3] == [119, 100, 100]


def test_the_known_input_is_no_part_of_what_other_causes_take():
    target, alone = result(200, num_gpus=8, **PHOTOS), result(100, **INDEPENDENT)
    why = diagnosed(target, alone, data_wait_share=0.2).why
    assert why.startswith("30% of the step is lost to contention or")


def test_two_causes_of_one_size_are_not_distinguished():
    diagnosis = diagnosed(*finder(100, 150, 201))
    assert (diagnosis.bound, diagnosis.confidence) == CANNOT_TELL
    assert diagnosis.why == "communication-bound and contention are as large as each other"


def test_repeats_that_contradict_each_other_leave_nothing_sure():
    diagnosis = diagnosed(*finder(100, 101, 150, factors=NOISY))
    assert diagnosis.confidence is Confidence.CANNOT_TELL
    assert "its repeats cannot tell it from nothing" in diagnosis.why


def test_cpu_devices_that_share_cores_are_compared_with_as_many_of_them():
    larger = result(19.9, CPU_DEVICES, batch_size=2 * BATCH, **INDEPENDENT)
    whole = finder(10, 80, 82, num_gpus=8, environment=CPU_DEVICES)
    found = explained(*whole, larger)
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (Bound.HEALTHY, SURE)
    assert found.steps.efficiency == pytest.approx(80 / 82, rel=0.01)
    target, alone, _, many, _ = whole
    assert verdict(target, alone, many) == CANNOT_TELL


def test_cores_that_others_took_are_no_measured_cost():
    """A bug: 87% of the cores were said to cost 87% of the step, which nothing had measured."""
    target = result(104, CPU_DEVICES)
    found = explained(target, seen={target.trial_id: Observed(cores_taken=0.87)})
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (Bound.CONTENTION, LIKELY)
    assert found.diagnosis.why == "other programs took 87% of the cores"
    assert found.steps.within == ()


def test_a_cause_just_below_what_matters_is_not_shown_as_that():
    """A bug: no cause took 10% of the step, and communication took 10% of the step."""
    diagnosis = diagnosed(*finder(100, 103, 114))
    assert (diagnosis.bound, diagnosis.confidence) == CANNOT_TELL
    assert diagnosis.why == (
        "it reaches 88% of the ideal, and no cause alone takes 10% of the step; "
        "communication takes 9.65% of the step, 11 ms"
    )


def test_a_tiny_model_is_launch_bound_whoever_takes_the_cores():
    wide = {"environment": CPU_DEVICES, "num_gpus": 2, "model": "trivial"}
    target, together = result(100, **wide), result(70, **wide, **INDEPENDENT)
    alone = result(38, CPU_DEVICES, model="trivial", **INDEPENDENT)
    assert verdict(target, together, alone, cores_taken=0.81) == (Bound.LAUNCH, LIKELY)

    small = result(10, CPU_DEVICES, batch_size=1)
    larger = result(16, CPU_DEVICES, NOISY, batch_size=2)
    floor = result(6, CPU_DEVICES, model="trivial", **INDEPENDENT)
    assert verdict(small, floor, larger, cores_taken=0.93) == (Bound.LAUNCH, LIKELY)
    quick = result(1, CPU_DEVICES, model="trivial", **INDEPENDENT)
    assert verdict(small, quick, cores_taken=0.93)[0] is Bound.CONTENTION


def test_throttling_is_contention_only_where_one_gpu_alone_is_not():
    target, *others = finder(100, 101, 102)
    hot = Observed(clock_loss=0.3, throttled={"sw_thermal_slowdown": ("GPU-0",)})
    every = {one.trial_id: hot for one in (target, *others)}
    assert explained(target, *others, seen=every).diagnosis.bound is Bound.COMPUTE
    (alone,) = (one for one in others if one.num_gpus == 1)
    every[alone.trial_id] = Observed(clock_loss=0.0)
    assert explained(target, *others, seen=every).diagnosis.bound is Bound.CONTENTION


PUBLISHED = "tf-benchmarks-2017/dgx-1"


@pytest.fixture(scope="module")
def published():
    return load(Selection(db="none.db", origin=Origin.PUBLISHED, source=PUBLISHED))


@pytest.mark.parametrize(
    ("model", "batch_size", "data", "num_gpus", "bound"),
    [
        ("vgg16", 32, "synthetic", 8, None),  # three points of its way and width show no growth
        ("alexnet", 512, "real", 4, Bound.INPUT),
        ("resnet50", 64, "synthetic", 8, Bound.HEALTHY),
        ("resnet50", 64, "real", 8, Bound.HEALTHY),
        ("vgg16", 64, "synthetic", 2, Bound.HEALTHY),
    ],
)
def test_published_rows_of_the_dgx_1_get_their_known_verdicts(
    published, model, batch_size, data, num_gpus, bound
):
    axes = {"model": model, "batch_size": batch_size, "data": data, "num_gpus": num_gpus}
    (target,) = (one for one in published if axes.items() <= one.axes.items())
    found = explained(target, *published)
    assert found.diagnosis.bound is bound
    assert found.diagnosis.confidence is not SURE
    assert "published figures have no repeats" in found.diagnosis.doubts


def test_a_published_figure_of_the_trivial_model_has_no_verdict():
    ours = result(57, num_gpus=8, model="trivial")
    axes = {axis: value for axis, value in ours.axes.items() if axis != "hosts"}
    place = replace(ours.environment, origin=Origin.PUBLISHED)
    figure = replace(ours, axes=axes, environment=place, repeats=ours.repeats[:1])
    assert verdict(figure) == CANNOT_TELL


# of a step of ResNet-50, bf16 compiled by XLA, batch 256, on an H200: nothing is reduced there
PROFILE_OF_AN_H200 = {
    "step_s": 0.0421,
    "exposed_reduction_s": 0.0,
    "input_wait_s": 2.38e-6,
    "launch_gap_share": 0.0476,
    "step_gap_share": 0.1075,
}


def test_a_profile_says_how_long_a_gpu_waits_for_launches():
    """A bug: 16 % idle between kernels, and a line below 5 %."""
    reasons = [cause.because for cause in diagnosed(result(100), profile=PROFILE_OF_AN_H200).causes]
    assert "the profile has GPUs wait for launches for 16% of the step" in reasons

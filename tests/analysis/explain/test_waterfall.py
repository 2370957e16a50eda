"""The parts of a step are differences of real trials, and add up to it."""

import math
from dataclasses import replace

import pytest

from analysis.explain.ablations import Ablation, AblationFinder
from analysis.explain.explanations import of_each_curve
from analysis.explain.waterfall import (
    LAUNCH_S,
    Cause,
    Seconds,
    difference,
    kernels_s,
    step_s,
    waterfall,
)
from scalemark.abilities import ALL_REDUCES
from simulator.costs.networks import network
from tests.analysis.explain.explained import (
    DISTORTED,
    ELSEWHERE,
    INDEPENDENT,
    PHOTOS,
    PS,
    finder,
    result,
)


def fall(target, *others):
    return waterfall(AblationFinder([target, *others]).around(target))


def test_all_ablations_make_a_part_each_and_add_up():
    found = fall(*finder(100, 105, 135, 150, 170))
    assert [part.causes for part in found.parts] == [
        (Cause.CONTENTION,),
        (Cause.COMMUNICATION,),
        (Cause.INPUT,),
        (Cause.DISTORTIONS,),
    ]
    assert [part.seconds.value for part in found.parts] == pytest.approx(
        [0.005, 0.030, 0.015, 0.020], rel=1e-4
    )
    assert found.base_s.value + math.fsum(
        part.seconds.value for part in found.parts
    ) == pytest.approx(found.step.value)
    assert found.efficiency == pytest.approx(100 / 170, rel=1e-3)
    assert found.ablations.missing[0] is Ablation.LARGER_BATCH


def test_an_ablation_that_is_missing_joins_the_causes_around_it():
    target, alone, _, many, _ = finder(100, 105, 135)
    (part,) = fall(target, alone, many).parts
    assert part.causes == (Cause.CONTENTION, Cause.COMMUNICATION)
    assert part.seconds.value == pytest.approx(0.035, rel=1e-4)


@pytest.mark.parametrize("own", ["", "input_s=0.3"])
def test_a_trial_with_an_idle_fault_counts_only_without_a_clean_one(own):
    injected, clean = result(120, injected="input_s=0.3"), result(110, factors=(1.0,))
    target = result(150, injected=own, **PHOTOS)
    assert (
        AblationFinder([injected, target, clean]).around(target).results[Ablation.REDUCING] is clean
    )
    assert AblationFinder([injected, target]).around(target).results[Ablation.REDUCING] is injected


def test_clean_trials_beside_the_ablation_go_first_too():
    idle = {"injected": "input_s=0.3"}
    target = result(150, **PHOTOS)
    calls = [
        result(90, steps_per_execution=10, **idle),
        result(100, factors=(1.0,), steps_per_execution=10),
    ]
    floors = [
        result(2, model="trivial", **INDEPENDENT, **idle),
        result(3, model="trivial", **INDEPENDENT),
    ]
    found = AblationFinder([target, *calls, *floors]).around(target).results
    assert (found[Ablation.MANY_STEPS], found[Ablation.FLOOR]) == (calls[1], floors[1])


def test_what_calls_cost_and_what_is_fixed_follow_from_two_trials_of_one_way():
    """A bug: a larger batch that fetches its variables from the host was subtracted from one alone that does not."""
    # of 20 ms a tenth is left with 10 steps per call
    assert fall(*finder(100, 101, 102, launching=20)).calls.seconds.value == pytest.approx(
        0.020, rel=1e-3
    )
    # 20 ms, and 1.25 ms per image
    found = fall(result(30, batch_size=8), result(50, batch_size=24))
    assert found.fixed.seconds.value == pytest.approx(0.020, rel=1e-3)
    target, alone = result(50, batch_size=8, **PS), result(30, batch_size=8, **INDEPENDENT)
    of_other_way = result(70, batch_size=24, **PS)
    assert fall(target, alone, of_other_way).fixed is None
    found = fall(target, alone, of_other_way, result(50, batch_size=24, **INDEPENDENT))
    assert found.fixed.seconds.value == pytest.approx(0.020, rel=1e-3)


def test_the_larger_batch_is_of_the_one_alone_that_was_found():
    """One replica of another all-reduce may stand for it."""
    copies = {"variable_update": "replicated", "all_reduce": "pscpu"}
    target = result(60, num_gpus=2, batch_size=8, **PS)
    found = fall(target, result(30, batch_size=8, **copies), result(50, batch_size=24, **copies))
    assert found.fixed.seconds.value == pytest.approx(0.020, rel=1e-3)


@pytest.mark.parametrize(("way", "causes"), [({}, []), (PS, [(Cause.COMMUNICATION,)])])
def test_one_replica_communicates_only_with_variables_on_the_host(way, causes):
    found = fall(result(100, **way), result(90, **INDEPENDENT))
    assert found.base is Ablation.ALONE
    assert [part.causes for part in found.parts] == causes


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"num_steps": 77, "seed": 3, "scaling": "strong", "min_window_s": 9.0}, True),
        ({"precision": "fp16"}, False),
        ({"batch_size": 64}, False),
        ({"optimizer": "adam"}, False),
        ({"image_px": 64}, False),
        ({"data_threads": 2}, False),
        ({"environment": ELSEWHERE}, False),
    ],
)
def test_an_ablation_has_all_axes_that_set_the_step_and_the_place(changes, counts):
    alone = result(100, **INDEPENDENT | changes)
    found = fall(result(120, num_gpus=2), alone).ablations.results
    assert (found.get(Ablation.ALONE) is alone) is counts


def test_of_equal_trials_the_one_with_most_repeats_counts():
    often = result(100, num_steps=50, **INDEPENDENT)
    single = result(90, factors=(1.0,), **INDEPENDENT)
    found = fall(result(120, num_gpus=2), single, often).ablations.results
    assert found[Ablation.ALONE] is often


def test_only_real_figures_of_one_replica_are_an_ideal_of_last_resort():
    found = fall(result(130, num_gpus=2, **PHOTOS), result(100, **PHOTOS))
    assert found.base is Ablation.ALONE_READING
    assert [part.causes for part in found.parts] == [
        (Cause.CONTENTION, Cause.COMMUNICATION, Cause.INPUT)
    ]


def test_the_top_of_each_set_of_ablations_is_explained():
    whole = finder(100, 101, 102, 110, 120)
    fewer = result(101, num_gpus=4, **DISTORTED)
    other = result(70, num_gpus=4, batch_size=16)
    assert of_each_curve([*whole, fewer, other], AblationFinder([*whole, fewer, other])) == [
        whole[0],
        other,
    ]


def test_a_difference_has_welchs_interval():
    before, after = (
        result(100, factors=(0.99, 1.0, 1.01)),
        result(120, num_gpus=2, factors=(0.99, 1.0, 1.01)),
    )
    found = difference(after, before)
    error = math.sqrt(1.0**2 / 3 + 1.2**2 / 3)  # ms
    freedom = (1 / 3 + 1.44 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (1.44 / 3) ** 2 / 2)
    assert 3.8 < freedom < 4
    assert (found.value, found.high - found.value) == pytest.approx(
        (0.020, 2.8e-3 * error), rel=0.01
    )
    assert found.is_conclusive


def test_within_single_processes_an_interval_decides_nothing():
    found = difference(result(120, num_gpus=2, factors=(1.0,)), result(100, factors=(1.0,)))
    assert (found.low is not None, found.over_processes, found.is_conclusive) == (
        True,
        False,
        False,
    )


def test_a_step_is_the_mean_over_processes():
    assert step_s(result(100, factors=(0.9, 1.0, 1.1))).value == pytest.approx(0.1)
    assert Seconds(value=1.0, low=0.5, high=2.0, over_processes=True).times(2) == Seconds(
        value=2.0, low=1.0, high=4.0, over_processes=True
    )


def test_one_replica_with_variables_on_the_cpu_is_the_second_choice():
    target, server, copies = result(650, num_gpus=8, **PS), result(577, **PS), result(495)
    found = fall(target, server, copies)
    assert found.ablations.results[Ablation.ALONE] is copies
    assert found.base_s.value == pytest.approx(0.495, rel=1e-3)
    assert fall(target, server).ablations.results[Ablation.ALONE] is server


@pytest.mark.parametrize("name", ALL_REDUCES)
def test_one_replica_of_any_all_reduce_there_is_is_alone(name):
    copies = result(495, all_reduce=name)
    assert fall(result(650, num_gpus=8, **PS), copies).ablations.results[Ablation.ALONE] is copies


def test_no_step_may_take_less_than_nothing_however_its_repeats_differ():
    found = step_s(result(100, factors=(0.5, 1.5)))
    assert found.low is not None
    assert 0 < found.low < found.value < found.high


def test_a_trial_that_counts_another_item_is_no_ablation():
    """A bug: its step time was subtracted, made of tokens as if they were images."""
    target, *others = finder(100, 105, 135)
    counting = [replace(one, item="samples") for one in others]
    assert AblationFinder([target, *counting]).around(target).results == {Ablation.REDUCING: target}
    of_samples = replace(target, item="samples")
    found = AblationFinder([of_samples, *counting]).around(of_samples).results
    assert {Ablation.ALONE, Ablation.INDEPENDENT, Ablation.REDUCING} <= set(found)
    assert Ablation.FLOOR not in found  # the trivial model counts images
    assert of_each_curve([target, of_samples], AblationFinder([target, of_samples])) == [
        target,
        of_samples,
    ]


def test_the_floor_has_the_free_axes_of_its_target():
    target, floor = result(100, free={"zero": 0}.items()), result(1, model="trivial")
    own = result(2, model="trivial", free={"zero": 0}.items())
    own, floor, target = (
        replace(one, axes={**one.axes, "axes.zero": zero})
        for one, zero in ((own, 0), (floor, 1), (target, 0))
    )
    everything = [replace(one, axes={**one.axes, **INDEPENDENT}) for one in (floor, own)]
    found = AblationFinder([target, *everything]).around(target).results
    assert found[Ablation.FLOOR].axes["axes.zero"] == 0


def test_launching_takes_longest_of_many_micro_batches_computed_again():
    """A bug: the kernels of one micro-batch, computed once, were counted."""
    tokens = {"model": "gpt_mini", "image_px": 0, "seq_len": 128, "num_classes": 256}
    one = kernels_s(result(1000, **tokens).axes)
    assert one == pytest.approx(LAUNCH_S * network("gpt_mini").num_operations)
    three = result(1000, **tokens, gradient_accumulation=3)
    assert kernels_s(three.axes) == pytest.approx(3 * one)
    again = result(1000, **tokens, gradient_accumulation=3, recompute=True)
    assert kernels_s(again.axes) == pytest.approx(4 * one)

"""Verdicts name what holds a trial back, and are sure only of what was measured for itself."""

from dataclasses import replace

import pytest

from analysis.explanation import text
from analysis.explanation.ablations import Ablation
from analysis.explanation.observed import Observed
from analysis.explanation.one_screen import screen
from analysis.explanation.suspects import Bound
from analysis.explanation.verdicts import Confidence
from analysis.explanation.waterfall import Cause
from analysis.selection import Selection, load
from scalemark.records.origin import Origin
from tests.analysis.explanation.explained import (
    BATCH,
    CPU_DEVICES,
    DGX_1,
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


def verdict(*results, seen=None):
    found = explained(*results, seen=seen).diagnosis
    return found.bound, found.confidence


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
    assert verdict(*finder(*ablations), TWICE_THE_BATCH) == (bound, Confidence.SURE)


def test_what_calls_cost_makes_a_trial_launch_bound():
    assert verdict(*finder(100, 101, 102, launching=40)) == (Bound.LAUNCH, Confidence.SURE)


def test_launching_from_cores_that_others_take_is_no_sure_cause():
    """A bug: it was sure, though other programs made launching take most of its time."""
    target, *others = finder(100, 101, 102, launching=40)
    found = explained(target, *others, seen={target.trial_id: Observed(cores_taken=0.4)}).diagnosis
    assert (found.bound, found.confidence) == (Bound.LAUNCH, Confidence.LIKELY)
    assert found.doubts == ("other programs took 40% of the cores",)
    little = {target.trial_id: Observed(cores_taken=0.05)}
    assert verdict(target, *others, seen=little) == (Bound.LAUNCH, Confidence.SURE)


def test_a_step_that_hardly_grows_with_the_batch_is_launch_bound():
    alone = result(20, batch_size=1)
    larger = result(21, batch_size=2)
    assert verdict(alone, larger) == (Bound.LAUNCH, Confidence.SURE)
    seen = {
        alone.trial_id: Observed(num_parameters=130_000_000)
    }  # 8 passes through 520 MB at 200 GB/s are 21 ms
    assert verdict(alone, larger, seen=seen)[0] is Bound.COMPUTE


def test_fixed_costs_below_half_of_the_step_make_no_sure_verdict():
    alone = result(20, batch_size=32)
    assert verdict(alone, result(26, batch_size=64)) == (
        Bound.LAUNCH,
        Confidence.SURE,
    )  # 14 of 20 ms are fixed
    assert verdict(alone, result(34, batch_size=64)) == (Bound.LAUNCH, Confidence.LIKELY)  # 6 are


def test_the_trivial_model_is_launch_bound():
    assert verdict(result(3, model="trivial")) == (Bound.LAUNCH, Confidence.SURE)


def test_the_trivial_model_without_its_ideal_is_not_surely_launch_bound():
    target = result(57, num_gpus=8, model="trivial")
    assert verdict(target) == (None, Confidence.CANNOT_TELL)
    assert verdict(target, result(3, model="trivial", **INDEPENDENT)) == (
        None,
        Confidence.CANNOT_TELL,
    )
    reading = result(30, model="trivial", **PHOTOS)
    assert verdict(reading) == (None, Confidence.CANNOT_TELL)
    assert verdict(reading, seen={reading.trial_id: Observed(data_wait_share=0.8)}) == (
        Bound.INPUT,
        Confidence.LIKELY,
    )
    assert verdict(reading, seen={reading.trial_id: Observed(data_wait_share=0.1)}) == (
        Bound.LAUNCH,
        Confidence.LIKELY,
    )


def test_a_published_figure_of_the_trivial_model_has_no_verdict():
    ours = result(57, num_gpus=8, model="trivial")
    reported = {axis: value for axis, value in ours.axes.items() if axis != "hosts"}
    figure = replace(
        ours,
        axes=reported,
        environment=replace(ours.environment, origin=Origin.PUBLISHED),
        repeats=ours.repeats[:1],
    )
    assert verdict(figure) == (None, Confidence.CANNOT_TELL)


def test_a_step_not_twice_that_of_the_trivial_model_is_launch_bound():
    assert (
        verdict(result(5, batch_size=1), result(3, model="trivial", **INDEPENDENT))[0]
        is Bound.LAUNCH
    )


def test_one_replica_whose_own_work_takes_the_time_is_compute_bound():
    calls = result(99.9, steps_per_execution=10)
    assert verdict(result(100), calls, result(199, batch_size=2 * BATCH)) == (
        Bound.COMPUTE,
        Confidence.SURE,
    )
    found = explained(result(100), calls).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMPUTE, Confidence.LIKELY)
    assert found.doubts == ("without a larger batch nothing shows what is fixed in a step",)


@pytest.mark.parametrize("fixed", [8, 12, 17, 22, 24])
@pytest.mark.parametrize("num_gpus", [1, 8])
def test_fixed_costs_that_may_matter_leave_nothing_sure(fixed, num_gpus):
    alone, larger = (
        result(100, **INDEPENDENT),
        result(200 - fixed, batch_size=2 * BATCH, **INDEPENDENT),
    )
    if num_gpus == 1:
        target, others = result(100), [result(99.9, steps_per_execution=10)]
    else:
        target, *others, _ = finder(100, 101, 102)
    found = explained(target, alone, larger, *others).diagnosis
    assert (found.bound, found.confidence) == (
        Bound.COMPUTE if num_gpus == 1 else Bound.HEALTHY,
        Confidence.LIKELY,
    )
    (doubt,) = found.doubts
    assert doubt.endswith(
        "% of the step may be there whatever the batch: launching, or the memory of the weights"
    )
    assert int(doubt.removeprefix("up to ").partition("%")[0]) > fixed


def test_a_small_cause_with_a_wide_interval_leaves_one_replica_unsure():
    ablations = [
        result(100, **INDEPENDENT),
        result(100),
        result(99.9, steps_per_execution=10),
        TWICE_THE_BATCH,
    ]
    assert verdict(result(104, **PHOTOS), *ablations) == (Bound.COMPUTE, Confidence.SURE)
    found = explained(result(110, **PHOTOS), *ablations).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMPUTE, Confidence.LIKELY)
    assert found.doubts[0] == "the interval of input reaches 10% of the step"


def test_fixed_costs_do_not_matter_where_a_cause_surely_takes_more():
    larger = result(180, batch_size=2 * BATCH, **INDEPENDENT)
    target, *others, _ = finder(100, 101, 120)
    assert verdict(target, *others, larger) == (Bound.COMMUNICATION, Confidence.LIKELY)
    target, *others, _ = finder(100, 101, 150)
    assert verdict(target, *others, larger) == (Bound.COMMUNICATION, Confidence.SURE)


def test_without_repeats_nothing_is_sure():
    found = explained(*finder(100, 101, 150, factors=(1.0,)), TWICE_THE_BATCH).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMMUNICATION, Confidence.LIKELY)
    assert found.doubts == ("single runs: sweep.repeats=3 would show how far others differ",)


def test_without_independent_replicas_a_loss_alone_is_not_called_communication():
    target, alone, _, many, _ = finder(100, 101, 150)
    found = explained(target, alone, many)
    assert (found.diagnosis.bound, found.remedies) == (None, ())
    assert text.verdict(found) == (
        "Cannot tell: 33% of the step is lost to contention or communication (50 ms); independent "
        "replicas would tell."
    )
    (missing,) = (one for one in found.diagnosis.needed if one.ablation is Ablation.INDEPENDENT)
    of_target = f"python sweep.py from={target.trial_id[:8]}"
    assert missing.command == f"{of_target} strategy=independent"
    assert found.measure_all == f"{of_target} experiment=explain"


def test_what_links_do_not_explain_is_not_laid_on_communication():
    """1 ms expected and 356 ms lost was `communication-bound (likely)`, from an efficiency below 0.90 alone."""
    target, alone, _, many, _ = finder(100, 101, 456, environment=DGX_1)
    found = explained(target, alone, many, gb_per_s=102.0)
    assert (found.diagnosis.bound, found.remedies) == (None, ())
    assert text.verdict(found) == (
        "Cannot tell: 78% of the step is lost to contention or communication (356 ms); "
        "the links would take 69.2 ms of these 356 ms, and do not explain the rest; "
        "independent replicas would tell."
    )
    assert any(
        line.endswith(
            "one reduction takes 1.00 ms (--gb-per-s); by the cost model replicated_none takes up "
            "to 69.2 ms; 356 ms were lost to contention or communication, which the links do not "
            "explain."
        )
        for line in text.sentences(found)
    )
    assert Ablation.INDEPENDENT in [one.ablation for one in found.diagnosis.needed]
    slow = explained(target, alone, many, gb_per_s=2.0)
    assert "do not explain the rest" not in text.verdict(slow)


def test_eight_v100_that_lose_more_than_links_explain_have_no_verdict():
    """1 ms expected and 356 ms lost, where VGG16 with five times the bytes scaled at 103 %."""
    half = {"precision": "fp16", "environment": DGX_1}
    nccl = half | {"num_gpus": 8, "all_reduce": "nccl"}
    small = explained(result(456, **nccl), result(100, **half, **INDEPENDENT), gb_per_s=102.0)
    assert small.diagnosis.bound is None
    large = explained(
        result(97, model="vgg16", **nccl),
        result(100, model="vgg16", **half, **INDEPENDENT),
        gb_per_s=102.0,
    )
    assert large.diagnosis.bound is Bound.HEALTHY


def test_small_losses_too_are_laid_on_links_only_if_these_explain_them():
    """161 messages take 10 ms by their number alone, 8 packs hardly any."""
    alone, few = (
        result(100, DGX_1, **INDEPENDENT),
        {"num_gpus": 8, "all_reduce": "nccl", "gradient_repacking": 8},
    )
    found = explained(result(130, DGX_1, **few), alone, gb_per_s=102.0 * 4)
    assert found.diagnosis.bound is None
    assert "which the links do not explain" in " ".join(text.sentences(found))
    many = explained(
        result(130, DGX_1, **few | {"gradient_repacking": 0}), alone, gb_per_s=102.0 * 4
    )
    assert "which the links do not explain" not in " ".join(text.sentences(many))


def test_a_measured_reduction_that_no_link_explains_is_not_sure():
    ablations = (
        *finder(100, 101, 456, environment=DGX_1),
        replace(TWICE_THE_BATCH, environment=DGX_1),
    )
    assert verdict(*ablations) == (Bound.COMMUNICATION, Confidence.SURE)
    found = explained(*ablations, gb_per_s=102.0).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMMUNICATION, Confidence.LIKELY)
    assert (
        "the links would take 69.2 ms of these 355 ms, and do not explain the rest" in found.doubts
    )


def test_one_trial_only_is_no_ground_for_a_verdict():
    found = explained(result(100, num_gpus=8))
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (None, Confidence.CANNOT_TELL)
    assert found.diagnosis.evidence == ("nothing to compare it with; one replica alone would tell",)
    assert {one.ablation for one in found.diagnosis.needed} == {
        Ablation.ALONE,
        Ablation.INDEPENDENT,
        Ablation.MANY_STEPS,
        Ablation.LARGER_BATCH,
        Ablation.FLOOR,
    }
    assert all(one.command.startswith("python sweep.py ") for one in found.diagnosis.needed)


def test_missing_trials_of_strong_scaling_have_the_batch_of_a_replica():
    found = explained(result(100, num_gpus=8, scaling="strong"))
    (alone,) = (one for one in found.diagnosis.needed if one.ablation is Ablation.ALONE)
    for command in (alone.command, found.measure_all):
        assert f" batch_size={BATCH} " in command
        assert "scaling=strong" not in command


def test_waiting_for_batches_is_seen_without_any_other_trial():
    target = result(100, num_gpus=8, **PHOTOS)
    assert verdict(target, seen={target.trial_id: Observed(data_wait_share=0.6)}) == (
        Bound.INPUT,
        Confidence.LIKELY,
    )


def test_real_data_without_a_synthetic_trial_cannot_be_distinguished():
    target, alone = result(200, num_gpus=8, **PHOTOS), result(100, **INDEPENDENT)
    assert verdict(target, alone) == (None, Confidence.CANNOT_TELL)
    seen = {target.trial_id: Observed(data_wait_share=0.45)}
    assert verdict(target, alone, seen=seen) == (Bound.INPUT, Confidence.LIKELY)
    seen = {target.trial_id: Observed(data_wait_share=0.01)}
    assert verdict(target, alone, seen=seen) == (None, Confidence.CANNOT_TELL)


def test_the_known_input_is_no_part_of_what_other_causes_take():
    target, alone = result(200, num_gpus=8, **PHOTOS), result(100, **INDEPENDENT)
    seen = {target.trial_id: Observed(data_wait_share=0.2)}
    assert (
        "30% of the step is lost to contention or communication (60 ms); independent replicas "
        "would tell" in explained(target, alone, seen=seen).diagnosis.evidence
    )


def test_a_wait_for_distortions_is_no_part_of_a_step_without_them():
    """A bug: communication was less by that wait, and a smaller input was sure."""
    target = result(300, num_gpus=8, **DISTORTED)
    others = [
        result(200, num_gpus=8, **PHOTOS),
        result(81, num_gpus=8, **INDEPENDENT),
        result(80, **INDEPENDENT),
        result(159, batch_size=2 * BATCH, **INDEPENDENT),
    ]
    found = explained(target, *others, seen={target.trial_id: Observed(data_wait_share=1 / 3)})
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (
        Bound.COMMUNICATION,
        Confidence.LIKELY,
    )
    assert found.diagnosis.evidence == (
        "communication: 119 ms more per step (40% of the step)",
        "distortions: 100 ms more per step (33% of the step)",
        "33% of the step is spent waiting for batches (33% of the step)",
    )


def test_measured_contention_is_not_blamed_for_what_a_profile_misses():
    target, alone, independent = (
        result(200, num_gpus=8, **PHOTOS),
        result(100, **INDEPENDENT),
        result(101, num_gpus=8, **INDEPENDENT),
    )
    profile = {"step_s": 0.2, "exposed_reduction_s": 0.02, "launch_gap_share": 0.0}
    found = explained(
        target,
        alone,
        independent,
        seen={target.trial_id: Observed(data_wait_share=0.05, profile=profile)},
    ).diagnosis
    assert found.bound is None
    assert all(
        one.bound is not Bound.CONTENTION or one.seconds.value < 0.002 for one in found.suspects
    )


def test_replicas_that_exchange_nothing_are_not_bound_by_communication():
    target, alone = result(200, num_gpus=8, **PHOTOS, **INDEPENDENT), result(100, **INDEPENDENT)
    assert verdict(target, alone, seen={target.trial_id: Observed(data_wait_share=0.05)}) == (
        Bound.CONTENTION,
        Confidence.LIKELY,
    )
    (part,) = explained(target, alone).fall.parts
    assert part.causes == (Cause.CONTENTION, Cause.INPUT)


def test_two_causes_of_one_size_are_not_distinguished():
    found = explained(*finder(100, 150, 201)).diagnosis
    assert (found.bound, found.confidence) == (None, Confidence.CANNOT_TELL)
    assert found.evidence[-1] == "communication-bound and contention are as large as each other"


def test_repeats_that_contradict_each_other_leave_nothing_sure():
    one = (0.7, 1.0, 1.3)
    found = explained(*finder(100, 101, 150, factors=one))
    assert found.diagnosis.confidence is Confidence.CANNOT_TELL
    assert "its repeats cannot tell it from nothing" in found.diagnosis.evidence
    (note,) = (note for note in found.notes if note.startswith("repeats of reducing"))
    assert "measure it again: python sweep.py from=" in note
    assert note.endswith("sweep.repeats=3 sweep.rerun=true")


def test_repeats_that_brought_no_number_are_reported_beside_the_verdict():
    target, *others = finder(100, 101, 150)
    notes = explained(replace(target, failed=("hung", "out_of_memory")), *others).notes
    assert "repeats of reducing brought no number (2 of 5: hung, out of memory)" in notes


def test_an_interval_that_reaches_below_10_percent_leaves_doubt():
    found = explained(*finder(100, 101, 118, factors=(0.97, 1.0, 1.03)), TWICE_THE_BATCH).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMMUNICATION, Confidence.LIKELY)
    assert "its interval reaches below 10% of the step" in found.doubts


def test_trials_of_another_machine_do_not_count():
    target = result(150, num_gpus=8)
    found = explained(target, result(100, ELSEWHERE, **INDEPENDENT))
    assert found.diagnosis.bound is None


def test_cpu_devices_that_share_cores_are_compared_with_as_many_of_them():
    larger = result(19.9, CPU_DEVICES, batch_size=2 * BATCH, **INDEPENDENT)
    found = explained(*finder(10, 80, 82, num_gpus=8, environment=CPU_DEVICES), larger)
    assert (found.diagnosis.bound, found.diagnosis.confidence) == (Bound.HEALTHY, Confidence.SURE)
    assert found.fall.efficiency == pytest.approx(80 / 82, rel=0.01)
    assert found.notes[0].startswith("CPU devices share the cores of one machine")
    assert verdict(*finder(10, 80, 160, num_gpus=8, environment=CPU_DEVICES), larger) == (
        Bound.COMMUNICATION,
        Confidence.SURE,
    )


def test_cpu_devices_without_independent_ones_cannot_be_judged():
    target, alone, _, many, _ = finder(10, 80, 160, num_gpus=8, environment=CPU_DEVICES)
    assert verdict(target, alone, many) == (None, Confidence.CANNOT_TELL)


def test_neighbors_on_the_cores_of_cpu_devices_are_contention():
    target, *others = finder(10, 80, 82, num_gpus=8, environment=CPU_DEVICES)
    assert (
        verdict(target, *others, seen={target.trial_id: Observed(cores_taken=0.4)})[0]
        is Bound.CONTENTION
    )


def test_a_row_shows_what_other_programs_take():
    """A bug: 83% of the step were lost to them, and no row said so; they were `observed`."""
    target = result(104, CPU_DEVICES)
    seen = {target.trial_id: Observed(cores_taken=0.83)}
    found = explained(target, seen=seen)
    assert found.diagnosis.bound is Bound.CONTENTION
    (row,) = (row for row in text.rows(found) if row[0] == "within: other programs")
    assert row[1:4] == ["86.3", "", "83%"]
    (line,) = text.evidence(found)
    assert line.startswith("Evidence (share of the cores): 86.3 ms estimated; ")
    headings = [cells[0] for cells in screen([found], Selection(db="r.db")).rows]
    assert headings[-1] == "within: other programs"


def test_a_tiny_model_is_launch_bound_whoever_takes_the_cores():
    wide = {"environment": CPU_DEVICES, "num_gpus": 2, "model": "trivial"}
    target, together = result(100, **wide), result(70, **wide, **INDEPENDENT)
    alone = result(38, CPU_DEVICES, model="trivial", **INDEPENDENT)
    found = explained(
        target, together, alone, seen={target.trial_id: Observed(cores_taken=0.81)}
    ).diagnosis
    assert (found.bound, found.confidence) == (Bound.LAUNCH, Confidence.LIKELY)
    assert "other programs took 81% of the cores" in found.doubts

    small, larger = (
        result(10, CPU_DEVICES, batch_size=1),
        result(16, CPU_DEVICES, (0.7, 1.0, 1.3), batch_size=2),
    )
    floor = result(6, CPU_DEVICES, model="trivial", **INDEPENDENT)
    busy = {small.trial_id: Observed(cores_taken=0.93)}
    found = explained(small, floor, larger, seen=busy).diagnosis
    assert (found.bound, found.confidence) == (Bound.LAUNCH, Confidence.LIKELY)
    quick = result(1, CPU_DEVICES, model="trivial", **INDEPENDENT)
    assert verdict(small, quick, seen=busy)[0] is Bound.CONTENTION


def test_what_one_way_cannot_tell_from_nothing_another_may():
    noisy = (0.7, 1.0, 1.3)
    small, larger = result(10, batch_size=1), result(12, factors=noisy, batch_size=2)
    assert verdict(small, larger)[0] is None
    assert verdict(small, larger, result(6, model="trivial", **INDEPENDENT)) == (
        Bound.LAUNCH,
        Confidence.LIKELY,
    )


def test_late_batches_are_contention_where_others_took_the_cores():
    target, *others = finder(100, 101, 102, 160)
    assert verdict(target, *others, seen={target.trial_id: Observed(cores_taken=0.4)}) == (
        Bound.CONTENTION,
        Confidence.LIKELY,
    )
    assert verdict(target, *others, seen={target.trial_id: Observed(cores_taken=0.05)}) == (
        Bound.INPUT,
        Confidence.SURE,
    )


def test_many_short_kernels_leave_doubt_until_a_larger_batch_is_run():
    target, *others = finder(20, 21, 30)
    found = explained(target, *others).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMMUNICATION, Confidence.LIKELY)
    (doubt,) = found.doubts
    assert doubt.startswith("up to ")
    assert verdict(target, *others, result(39, batch_size=64, **INDEPENDENT)) == (
        Bound.COMMUNICATION,
        Confidence.SURE,
    )


def test_what_takes_most_of_the_step_is_sure_whatever_launching_costs():
    target, *others, _ = finder(20, 21, 30)
    assert verdict(target, *others) == (Bound.COMMUNICATION, Confidence.LIKELY)
    target, *others, _ = finder(20, 21, 60)
    assert verdict(target, *others) == (Bound.COMMUNICATION, Confidence.SURE)


def test_without_a_floor_or_a_larger_batch_nobody_knows_what_is_fixed():
    target, *others, _ = finder(100, 101, 150)
    found = explained(target, *others).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMMUNICATION, Confidence.LIKELY)
    assert found.doubts == ("without a larger batch nothing shows what is fixed in a step",)


def test_kernels_that_may_take_most_of_a_step_leave_no_verdict_without_a_larger_batch():
    small = {"batch_size": 1, "num_gpus": 2}
    target, together = result(12, **small), result(9, **small, **INDEPENDENT)
    alone = result(8.9, batch_size=1, **INDEPENDENT)
    found = explained(target, together, alone).diagnosis
    assert (found.bound, found.confidence) == (None, Confidence.CANNOT_TELL)
    assert found.evidence[-1].endswith("of the step; a larger batch would tell")
    assert Ablation.LARGER_BATCH in {one.ablation for one in found.needed}
    fixed = result(9.1, batch_size=2, **INDEPENDENT)
    assert verdict(target, together, alone, fixed)[0] is Bound.LAUNCH
    not_fixed = result(17.6, batch_size=2, **INDEPENDENT)
    assert verdict(target, together, alone, not_fixed)[0] is Bound.COMMUNICATION
    busy = Observed(profile={"step_s": 0.012, "exposed_reduction_s": 0, "launch_gap_share": 0.01})
    assert verdict(target, together, alone, seen={target.trial_id: busy})[0] is Bound.COMMUNICATION


def test_few_kernels_in_a_long_step_leave_no_such_doubt():
    assert verdict(result(100), result(99.9, steps_per_execution=10))[0] is Bound.COMPUTE
    assert verdict(result(9, batch_size=1), result(8.99, batch_size=1, steps_per_execution=10)) == (
        None,
        Confidence.CANNOT_TELL,
    )


def test_a_larger_batch_alone_shows_that_little_is_lost():
    target = result(100, num_gpus=8)
    found = explained(target, TWICE_THE_BATCH).diagnosis  # a batch takes half of its 199.5 ms
    assert (found.bound, found.confidence) == (Bound.HEALTHY, Confidence.LIKELY)
    assert found.doubts == (
        "without one replica alone nothing shows what is fixed in a step",
        "one replica was measured with a larger batch alone",
    )
    (evidence,) = found.rests_on
    assert evidence.trials == (target.trial_id, TWICE_THE_BATCH.trial_id)
    assert evidence.seconds.value == pytest.approx(0.1 - 0.1995 / 2, rel=1e-3)
    slower = result(120, num_gpus=8)
    assert verdict(slower, TWICE_THE_BATCH) == (None, Confidence.CANNOT_TELL)


def test_what_hides_behind_the_input_is_not_surely_what_holds_back():
    target, *others = finder(100, 101, 150, 151)
    found = explained(target, *others, TWICE_THE_BATCH).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMMUNICATION, Confidence.SURE)
    target, *others = finder(100, 101, 150, 160)
    found = explained(target, *others, TWICE_THE_BATCH).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMMUNICATION, Confidence.LIKELY)
    assert found.doubts == (
        "it waits for batches, too: mending this alone would make it wait for longer",
    )


def test_a_replica_alone_that_fetches_its_variables_leaves_nothing_else_sure():
    target = result(101, num_gpus=8, **PS)
    alone = result(100, **PS)
    larger = result(199.5, batch_size=2 * BATCH, **PS)
    assert verdict(target, alone, larger) == (Bound.HEALTHY, Confidence.LIKELY)
    assert verdict(target, result(100, **INDEPENDENT), TWICE_THE_BATCH)[1] is Confidence.SURE


def test_what_is_lost_to_no_one_knows_what_leaves_the_rest_unsure():
    target = result(100, num_gpus=8)
    many = result(70, num_gpus=8, steps_per_execution=10)
    found = explained(target, many).diagnosis
    assert (found.bound, found.confidence) == (Bound.LAUNCH, Confidence.LIKELY)
    assert found.doubts == ("missing to tell it from other causes: alone and independent",)
    throttled = Observed(clock_loss=0.3)
    found = explained(target, seen={target.trial_id: throttled}).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMPUTE, Confidence.LIKELY)
    assert "missing to tell it from other causes: alone and independent" in found.doubts


def test_late_batches_may_be_late_without_other_programs_too():
    target, *others = finder(100, 101, 102, 160)
    found = explained(target, *others, seen={target.trial_id: Observed(cores_taken=0.4)}).diagnosis
    assert found.bound is Bound.CONTENTION
    assert "its input may be as slow by itself: again without other programs would tell" in (
        found.doubts
    )


def test_throttling_is_contention_only_where_one_gpu_alone_is_not():
    target, *others = finder(100, 101, 102)
    hot = Observed(clock_loss=0.3, throttled=("sw_thermal_slowdown",))
    every = {one.trial_id: hot for one in (target, *others)}
    assert verdict(target, *others, seen=every)[0] is Bound.COMPUTE
    alone = next(one for one in others if one.num_gpus == 1)
    assert (
        verdict(target, *others, seen=every | {alone.trial_id: Observed(clock_loss=0.0)})[0]
        is Bound.CONTENTION
    )


def test_a_suspect_trial_leaves_nothing_sure():
    target, *others = finder(100, 101, 150)
    seen = {
        target.trial_id: Observed(
            doubts=("steps became 9% slower within the window; look for heat or neighbors",)
        )
    }
    assert verdict(target, *others, seen=seen) == (Bound.COMMUNICATION, Confidence.LIKELY)


def test_a_profile_tells_communication_from_contention():
    target, alone, _, many, _ = finder(100, 101, 150)
    profile = {"step_s": 0.2, "exposed_reduction_s": 0.004, "launch_gap_share": 0.01}
    found = explained(
        target, alone, many, seen={target.trial_id: Observed(profile=profile)}
    ).diagnosis
    assert (found.bound, found.confidence) == (Bound.CONTENTION, Confidence.LIKELY)


def test_small_losses_that_add_up_are_the_largest_one_and_not_sure():
    found = explained(*finder(100, 106, 115)).diagnosis
    assert (found.bound, found.confidence) == (Bound.COMMUNICATION, Confidence.LIKELY)
    assert "no cause alone takes 10% of the step" in found.doubts


def test_a_parameter_server_alone_communicates_with_the_host():
    ps = result(150, **PS)
    others = [
        result(100, **INDEPENDENT),
        result(149.9, steps_per_execution=10, **PS),
        result(0.1, model="trivial", **INDEPENDENT),
    ]
    assert verdict(ps, *others) == (Bound.COMMUNICATION, Confidence.SURE)


def test_what_is_injected_where_it_slows_nothing_makes_no_other_trial():
    slowed = result(160, num_gpus=8, injected="reduction_s=0.05")
    ablations = [
        result(100, **INDEPENDENT),
        result(101, num_gpus=8, injected="reduction_s=0.05", **INDEPENDENT),
    ]
    assert verdict(slowed, *ablations)[0] is Bound.COMMUNICATION
    read = result(160, num_gpus=8, injected="input_s=0.05", **PHOTOS)
    assert verdict(read, *ablations, result(102, num_gpus=8))[0] is Bound.INPUT


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
    assert found.diagnosis.confidence is not Confidence.SURE
    assert "published figures have no repeats" in found.diagnosis.doubts
    assert found.measure_all.startswith(
        f"python sweep.py experiment=explain model={model} num_gpus={num_gpus} "
    )


@pytest.mark.parametrize(("num_gpus", "images"), [(8, 898), (4, 534)])
def test_the_input_of_vgg16_is_doubted_where_alexnet_reads_faster(published, num_gpus, images):
    axes = {"model": "vgg16", "batch_size": 64, "data": "real", "num_gpus": num_gpus}
    (target,) = (one for one in published if axes.items() <= one.axes.items())
    found = explained(target, *published).diagnosis
    assert found.bound is Bound.INPUT
    assert found.doubts[-1] == (
        f"alexnet reads 7,105 images/s of the same data there, and this one {images}: batches could "
        "come in time"
    )


def test_images_of_a_step_are_of_all_replicas():
    assert explained(result(100, num_gpus=4, **DISTORTED)).fall.step.value == pytest.approx(0.1)
    assert result(100, num_gpus=4).throughput == pytest.approx(4 * BATCH / 0.1)


def test_seconds_are_reported_in_whole_milliseconds():
    found = explained(result(2370, **PHOTOS), result(100))
    assert "input: 2270 ms more per step" in text.verdict(found)


# of a step of ResNet-50, bf16 compiled by XLA, batch 256, on an H200: nothing is reduced there
PROFILE_OF_AN_H200 = {
    "step_s": 0.0421,
    "reduction_s": 0.0,
    "exposed_reduction_s": 0.0,
    "input_wait_s": 2.38e-6,
    "launch_gap_share": 0.0476,
    "step_gap_share": 0.1075,
}


def test_a_profile_of_one_gpu_says_how_long_it_was_idle_and_nothing_of_reductions(snapshot):
    target = result(100)
    found = explained(target, seen={target.trial_id: Observed(profile=PROFILE_OF_AN_H200)})
    assert [one for one in text.sentences(found) if "TensorFlow's profile" in one] == snapshot


def test_idle_time_of_two_kinds_is_not_said_in_the_words_of_one():
    """A bug: 16 % idle between kernels, and a line below 5 %."""
    target = result(100)
    found = explained(target, seen={target.trial_id: Observed(profile=PROFILE_OF_AN_H200)})
    reasons = [one.because for one in found.diagnosis.suspects]
    assert "the profile has GPUs wait for launches for 16% of the step" in reasons


def test_what_gpus_wait_for_between_steps_is_launching_but_for_input_and_reductions():
    assert Observed(profile=PROFILE_OF_AN_H200).launch_gap_share == pytest.approx(0.1550, abs=1e-4)
    waits = {"input_wait_s": 0.0421 / 10, "exposed_reduction_s": 0.0421 / 10}
    assert Observed(profile=PROFILE_OF_AN_H200 | waits).launch_gap_share == 0.0476


@pytest.mark.parametrize(("lost", "is_known"), [(0.0, False), (0.004, False), (0.02, True)])
def test_clocks_are_reported_only_where_some_of_them_is_lost(lost, is_known):
    target = result(100)
    seen = Observed(clock_loss=lost, throttled=("sw_power_cap",))
    found = explained(target, seen={target.trial_id: seen})
    assert (
        any("below its highest clock" in sentence for sentence in text.sentences(found)) is is_known
    )

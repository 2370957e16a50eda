"""What is too far from the rows is refused, with how far, and what to measure."""

from dataclasses import replace

import pytest

from analysis.calibration.refusals import refusal
from costs.step import costs
from tests.analysis.calibration.test_fit import BOX, TRUE, row

KNOWN = [row("resnet50", 1, "nccl", TRUE)]


def test_more_gpus_on_the_same_box_are_not_refused() -> None:
    assert refusal(row("resnet50", 8, "nccl"), KNOWN, BOX) is None


def test_a_model_without_rows_is_refused() -> None:
    found = refusal(row("vgg16", 8, "nccl"), KNOWN, BOX)
    assert found is not None
    assert (
        found.reason
        == "model=vgg16: no row of it, so how fast this hardware computes it is not known; there are rows of resnet50"
    )
    assert found.missing is not None
    assert (found.missing.work.num_gpus, found.missing.work.network.name) == (1, "vgg16")


def test_many_times_the_gpus_of_all_rows_are_refused() -> None:
    found = refusal(row("resnet50", 16, "nccl"), KNOWN, replace(BOX, num_gpus=16))
    assert found is not None
    assert (
        "num_gpus=16: 16 times the most that rows have, 1; wanted at most 8 times" in found.reason
    )
    assert found.missing is not None
    assert found.missing.work.num_gpus == 2


def test_a_batch_as_large_as_one_that_ran_is_not_refused_for_memory() -> None:
    """A bug: an estimate of the memory refused what had run."""
    small_box = replace(BOX, memory_gib=4)
    large = row("resnet50", 2, "nccl", batch_size=256)
    found = refusal(large, KNOWN, small_box)
    assert found is not None
    assert "choose a smaller batch" in found.reason
    assert refusal(large, KNOWN, small_box, ran=[large]) is None


@pytest.mark.parametrize("batch_size", [4, 1024])
def test_a_batch_far_from_all_rows_is_refused(batch_size: int) -> None:
    found = refusal(
        row("resnet50", 2, "nccl", batch_size=batch_size), KNOWN, replace(BOX, memory_gib=1000)
    )
    assert found is not None
    assert (
        f"batch_size={batch_size}: 16 times away from the nearest that rows of resnet50 have, of 64"
        in found.reason
    )


def test_a_batch_that_cannot_fit_is_refused() -> None:
    found = refusal(row("resnet50", 2, "nccl", batch_size=512), KNOWN, BOX)
    assert found is not None
    assert "GiB, and Tesla P100-PCIE-16GB has 16; choose a smaller batch" in found.reason


def test_what_a_simulated_trial_has_no_room_for_is_refused() -> None:
    """A bug: a batch was predicted that `engine=simulated` refuses."""
    asked = row("resnet50", 2, "nccl", batch_size=128)
    needed_gib = costs(asked.work, BOX).memory_bytes / 2**30
    assert refusal(asked, KNOWN, replace(BOX, memory_gib=1.001 * needed_gib)) is None
    assert refusal(asked, KNOWN, replace(BOX, memory_gib=0.999 * needed_gib)) is not None


def test_a_missing_link_is_refused_with_what_to_add() -> None:
    found = refusal(row("resnet50", 8, "nccl"), KNOWN, replace(BOX, socket_gb_per_s=None))
    assert found is not None
    assert "socket_gb_per_s is not known; add it to the profile" in found.reason


def test_a_precision_that_the_box_lacks_is_refused() -> None:
    asked = row("resnet50", 2, "nccl")
    found = refusal(replace(asked, work=replace(asked.work, precision="bf16")), KNOWN, BOX)
    assert found is not None
    assert "precision=bf16: p100_pcie_8 does not have it" in found.reason


def test_what_the_trainer_refuses_is_not_predicted() -> None:
    """A bug: it was predicted, though nobody could measure it."""
    asked = row("resnet50", 2, "nccl")
    again = refusal(replace(asked, work=replace(asked.work, recompute=True)), KNOWN, BOX)
    assert again is not None
    assert again.reason == (
        "recompute=true: resnet50 does not say which activations to keep; leave it out"
    )
    shards = {"variable_update": "sharded", "all_reduce": "none"}
    one = replace(asked, work=replace(asked.work, num_gpus=1, **shards))
    alone = refusal(one, KNOWN, BOX)
    assert alone is not None
    assert alone.reason == (
        "num_gpus=1: variable_update=sharded takes 2 replicas or more; raise num_gpus, or choose "
        "variable_update=replicated"
    )


def test_what_to_measure_first_has_as_many_gpus_as_its_strategy_takes() -> None:
    asked = row("vgg16", 4, "nccl")
    shards = replace(asked.work, variable_update="sharded", all_reduce="none")
    found = refusal(replace(asked, work=shards), KNOWN, BOX)
    assert found is not None
    assert found.missing is not None
    assert found.missing.work.num_gpus == 2

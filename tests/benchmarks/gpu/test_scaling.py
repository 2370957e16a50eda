"""Speed on several GPUs: which trials, and when its lines are met, missed or not run."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu.kit import Kit, NotRunError
from benchmarks.gpu.stages import scaling
from benchmarks.gpu.stages.scaling import efficiencies, efficiency_is_sane, losses_agree
from benchmarks.gpu.trials import Trial
from tests.benchmarks.gpu.boxes import H100, box
from tests.benchmarks.gpu.boxes import MEASURED as ALONE
from tests.benchmarks.gpu.test_smoke import trial as completed

MIG = replace(H100, uuid="MIG-0", mig_parent="GPU-aaaa")


def trial(num_gpus: int, throughput: float = 2500.0, all_reduce: str = "none", loss=6.9) -> Trial:
    one = completed()
    measured = replace(ALONE, throughput=throughput, first_loss=loss)
    return replace(
        one,
        spec=replace(one.spec, num_gpus=num_gpus, all_reduce=all_reduce),
        result=replace(one.result, measurement=measured),
    )


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        ((H100,), "needs two GPUs, found one"),
        ((MIG, MIG), "needs two GPUs, found MIG devices, of which a program sees one"),
    ],
)
def test_a_box_on_which_a_program_sees_one_gpu_does_not_run_it(gpus, why):
    with pytest.raises(NotRunError, match=why):
        list(scaling.run(Kit(box=box(*gpus), folder=Path("kit"), torch_python="python")))


@pytest.mark.parametrize(
    ("num_gpus", "numbers", "summing"),
    [(0, "2", "ring"), (2, "2", "nccl"), (3, "2,3", "nccl"), (8, "2,8", "nccl")],
)
def test_strategies_run_on_two_and_on_all_gpus_and_one_gpu_once(num_gpus, numbers, summing):
    *_, grids = scaling.grid(box(*num_gpus * [H100]))
    assert grids == (
        "hydra.sweeper.grids=["
        "{variable_update:replicated,all_reduce:none,num_gpus:1},"
        f"{{variable_update:replicated,all_reduce:[none,{summing}],num_gpus:[{numbers}]}},"
        f"{{variable_update:process_per_gpu,all_reduce:{summing},num_gpus:[{numbers}]}}]"
    )


def test_efficiency_is_the_speed_over_that_of_as_many_gpus_alone():
    found = efficiencies([trial(1, 100.0), trial(2, 190.0), trial(8, 640.0, "nccl")])
    assert [(label.split("NHWC ")[1], value) for label, value in found.items()] == [
        ("xla=on replicated_none on 2", 0.95),
        ("xla=on replicated_nccl on 8", 0.8),
    ]
    assert efficiencies([trial(2, 190.0)]) == {}


@pytest.mark.parametrize(
    ("found", "on_gpus", "verdict", "why"),
    [
        ({"a": 0.9, "b": 1.05}, True, "met", "0.900 to 1.050 in 2 trials"),
        ({"a": 0.9, "b": 1.06}, True, "missed", "b: 1.060"),
        ({"a": 0.9, "b": 1.3}, False, "not run", "on CPU devices 0.900 to 1.300 in 2 trials"),
        ({}, True, "not run", "no trial on one GPU, or none on several, was measured"),
    ],
)
def test_an_efficiency_that_cannot_be_is_missed(found, on_gpus, verdict, why):
    judged = efficiency_is_sane("efficiency", found, on_gpus=on_gpus)
    assert (judged.verdict, judged.why) == (verdict, why)


def test_first_losses_are_compared_on_the_same_number_of_gpus():
    """On more GPUs the loss is a mean over more batches."""
    apart = [trial(1, loss=7.1), trial(2, loss=6.9), trial(8, loss=6.8)]
    alone = losses_agree("losses", apart)
    told = "no two strategies were measured on the same number of GPUs"
    assert (alone.verdict, alone.why) == ("not run", told)
    met = losses_agree("losses", [*apart, trial(2, loss=6.9001), trial(8, loss=6.8)])
    told = "6.9 to 6.9001 in 2 strategies on 2; 6.8 to 6.8 in 2 strategies on 8"
    assert (met.verdict, met.why) == ("met", told)
    missed = losses_agree("losses", [*apart, trial(2, loss=6.9), trial(8, loss=6.9)])
    assert (missed.verdict, "6.8 to 6.9 in 2 strategies on 8" in missed.why) == ("missed", True)
    assert losses_agree("losses", [*apart, trial(2, loss=None)]).verdict == "missed"

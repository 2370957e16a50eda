"""Boxes of which nothing but the GPU is reported: what rows say of their links, and what is doubted."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.calibration.boxes import possible
from analysis.calibration.environments import guessed
from analysis.calibration.fit import Fit
from analysis.calibration.predicted import predicted, weighed
from analysis.calibration.row import Row
from costs.hardware import Hardware
from costs.networks import network
from costs.step import Rates, Step
from costs.work import Work

GUESS = guessed("10 x GeForce RTX 2080 Ti", 4)
HALF = replace(GUESS.hardware, gpus_per_switch=5, num_sockets=1)
TRUE = Rates(compute=0.33, memory=0.46, start=1.0, link=0.5, overlap=0.4, host_s=5e-4, sync=0.01)
MODELS = {"vgg16": 64, "resnet50": 64, "alexnet": 256}


def ring(model: str, num_gpus: int, box: Hardware = HALF) -> Row:
    """With what a box of GPUs that do not reach each other gives."""
    work = Work(
        network=network(model), num_gpus=num_gpus, batch_size=MODELS[model], precision="fp16",
        variable_update="replicated", local_parameter_device="gpu", all_reduce="nccl",
    )  # fmt: skip
    return Row(
        work=work,
        throughput=Step.of(work, box).costs(TRUE).throughput,
        name=f"{model} {num_gpus}",
    )


FEW = [ring(model, num) for model in MODELS for num in (1, 2, 4)]
MANY = [ring(model, num) for model in MODELS for num in (8, 10)]


@pytest.fixture(name="fits", scope="module")
def fits_of_few() -> list[tuple[float, Fit]]:
    return weighed(FEW, MANY, GUESS)


def test_all_that_a_box_may_be_is_as_likely_before_any_row() -> None:
    found = possible(GUESS.hardware, is_gpu_known=False)
    assert sum(one.weight for one in found) == pytest.approx(1)
    assert len({one.hardware.to_json() for one in found}) == len(found) == 14
    assert {one.hardware.peer_to_peer for one in GUESS.others} == {False}


def test_rows_tell_that_gpus_share_an_uplink(fits: list[tuple[float, Fit]]) -> None:
    """Of the ring's time, 4 GPUs below one switch take three times what 2 do."""
    by_switch = dict.fromkeys((1, 2, 5), 0.0)
    for weight, fit in fits:
        by_switch[fit.targets[0].step.hardware.gpus_per_switch] += weight
    assert by_switch[5] > 0.8


def test_a_ring_that_reaches_its_second_switch_costs_hardly_more(
    fits: list[tuple[float, Fit]],
) -> None:
    """A bug: predicted was what 4 GPUs of other switches would cost, up to a third too slow."""
    for reported, truth in zip(predicted(FEW, MANY, GUESS), MANY, strict=True):
        assert reported.throughput == pytest.approx(truth.throughput, rel=0.05)
        assert truth.throughput is not None
        assert reported.low < truth.throughput < reported.high


def test_links_that_nobody_gave_are_doubted_where_they_matter() -> None:
    heavy, none = predicted(FEW, [ring("vgg16", 8), ring("vgg16", 1)], GUESS)
    assert any(
        "how the GPUs are linked is not known, and communication is about" in why
        for why in heavy.uncertain
    )
    assert none.uncertain == ()


def test_the_weights_of_one_box_alone_are_known_from_its_rows(
    fits: list[tuple[float, Fit]],
) -> None:
    assert sum(weight for weight, _ in fits) == pytest.approx(1)
    assert all(np.isfinite(fit.log_evidence) for _, fit in fits)

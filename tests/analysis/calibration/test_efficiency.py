"""Predicts what a GPU reaches before any row: by its generation, precision, model and software."""

import math
from dataclasses import replace

import pytest

from analysis.calibration.efficiency import (
    OURS,
    PRODUCTS,
    Efficiency,
    Software,
    fitted,
    terms,
)
from analysis.calibration.environments import Guess
from analysis.calibration.predicted import predicted
from analysis.calibration.row import Row
from costs.networks import network
from costs.profiles import profile
from costs.work import Work
from tests.analysis.calibration.test_fit import row

V100, K80 = profile("dgx1_v100"), profile("k80_8")


def work(model: str = "vgg16", precision: str = "fp32", *, xla: bool = False) -> Work:
    return replace(row(model, 1, "nccl").work, precision=precision, xla=xla)


def test_the_factors_that_a_trial_has_are_multiplied() -> None:
    logs = {
        ("base", ""): math.log(0.4),
        ("generation", "Volta"): math.log(2.0),
        ("model", "vgg16"): math.log(0.5),
        ("XLA", ""): math.log(3.0),
        ("generation", "Kepler"): math.log(99.0),
    }
    efficiency = Efficiency(logs=logs)
    assert efficiency.share(work(), V100) == pytest.approx(0.4)
    assert efficiency.share(work("resnet50"), V100) == pytest.approx(0.8)
    assert efficiency.share(work(xla=True), V100) == pytest.approx(1.2)


def test_years_count_from_2018_and_by_the_cores_that_compute() -> None:
    newer = Software(framework="TensorFlow", year=2021)
    assert terms(work(), V100, newer)["years", "ordinary cores"] == 3
    assert terms(work(precision="fp16"), V100, newer)["years", "tensor cores"] == 3


def test_another_framework_has_a_factor_of_all_precisions_and_one_of_each() -> None:
    found = terms(work(precision="fp16"), V100, Software(framework="MXNet", year=2020))
    assert ("framework", "MXNet") in found
    assert ("framework and precision", "MXNet half") in found
    assert not any(of.startswith("framework") for of, _ in terms(work(), V100, OURS))


def test_products_of_matrices_have_a_share_of_their_own() -> None:
    bert = replace(work(), network=network("bert_base"))
    assert fitted().share(bert, V100) == fitted().share(bert, K80) == PRODUCTS


def test_k80_reaches_less_of_its_peak_than_v100() -> None:
    assert fitted().share(work(), K80) < 0.7 * fitted().share(work(), V100)


def test_rows_of_one_generation_tell_what_another_reaches() -> None:
    """What a model reaches on K80 is carried over times what V100 usually reaches more."""
    known = replace(row("vgg16", 1, "nccl"), throughput=36.0)
    asked = [row("vgg16", 1, "nccl")]
    guess = Guess(hardware=K80, reason="reported")
    even = Efficiency(logs={("base", ""): math.log(0.5), ("start", ""): math.log(6.0)})
    [plain] = predicted([known], asked, guess, V100, efficiency=even)
    [better] = predicted([known], asked, guess, V100)
    assert better.throughput > 1.3 * plain.throughput


def without_rows(asked: Row) -> float:
    [found] = predicted((), [asked], Guess(hardware=V100, reason="reported"))
    return found.half_width


def test_networks_of_which_nothing_was_fitted_have_wider_intervals() -> None:
    asked = row("resnet50", 1, "nccl")
    bert = replace(asked, work=replace(asked.work, network=network("bert_base"), batch_size=8))
    assert without_rows(bert) > 1.5 * without_rows(asked)

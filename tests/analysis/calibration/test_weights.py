"""Candidates are weighed by their own variance and their record; intervals by what others missed."""

import math
from dataclasses import replace

import pytest

from analysis.calibration.environments import Guess
from analysis.calibration.intervals import QUANTILES, quantile, scale
from analysis.calibration.predicted import predicted
from analysis.calibration.row import Row
from analysis.calibration.weights import (
    KNOWN_BOX,
    PHYSICS,
    Entry,
    Stack,
    stacked,
    typical_errors,
)
from costs.profiles import profile
from tests.analysis.calibration.test_fit import BOX, reported, row, rows

LOGS = {PHYSICS: 0.2, "linear": 0.0, "ring": 0.1, "amdahl": 0.5}
VARIANCES = {PHYSICS: 0.03**2, "linear": 0.03**2, "ring": 0.03**2, "amdahl": 0.09**2}


def alike(**errors: float) -> Entry:
    """Missed so much of another curve of the same strategy and box."""
    return Entry(is_alike=True, errors=errors)


def test_without_a_record_what_is_usually_right_leads() -> None:
    found = stacked(LOGS, VARIANCES, ())
    assert found.weights[PHYSICS] == found.weights["linear"] == found.weights["ring"]
    assert found.weights["ring"] == pytest.approx(9 * found.weights["amdahl"])


def test_what_was_far_off_on_the_box_has_less_weight_with_each_curve() -> None:
    entry = alike(physics=0.1, linear=0.1, ring=0.01, amdahl=-0.1)
    weights = [stacked(LOGS, VARIANCES, [entry] * num).weights["ring"] for num in (0, 1, 8)]
    assert weights[0] < 0.4 < weights[1] < 0.9 < weights[2]


def test_one_stray_row_hardly_moves_the_weights() -> None:
    fine = alike(physics=0.03, linear=0.03, ring=0.02, amdahl=0.09)
    stray = alike(physics=2.0, linear=2.1, ring=2.2, amdahl=2.3)
    calm = stacked(LOGS, VARIANCES, [fine] * 5)
    shaken = stacked(LOGS, VARIANCES, [*[fine] * 5, stray])
    assert shaken.middle == pytest.approx(calm.middle, abs=0.02)


def test_four_curves_of_another_strategy_count_as_one() -> None:
    entry = alike(physics=0.1, linear=0.01, ring=0.1, amdahl=0.1)
    other = replace(entry, is_alike=False)
    one, four = (stacked(LOGS, VARIANCES, record) for record in ([entry], [other] * 4))
    assert four.weights == pytest.approx(one.weights)


def test_the_physics_of_a_curve_weighs_less_the_wider_its_interval() -> None:
    [found] = reported(rows(), [row("resnet50", 8, "ps_cpu")])
    weighing = found.weighing
    assert weighing is not None
    wider = replace(weighing, physics=replace(weighing.physics, high=2 * weighing.physics.high))
    weights = [
        {one.name: one.weight for one in of.predictive().candidates} for of in (weighing, wider)
    ]
    assert weights[1][PHYSICS] < 0.5 * weights[0][PHYSICS]


def test_a_rule_that_carries_more_noise_on_weighs_less() -> None:
    [found] = reported(rows(), [row("resnet50", 8, "ps_cpu")])
    weighing = found.weighing
    assert weighing is not None
    noisy = replace(weighing, leverages=weighing.leverages | {"ring": 100.0})
    weights = [
        {one.name: one.weight for one in of.predictive().candidates} for of in (weighing, noisy)
    ]
    assert weights[1]["ring"] < 0.5 * weights[0]["ring"]


def test_the_middle_is_the_weighted_median() -> None:
    stray = Stack(logs={PHYSICS: 9.0, "linear": 0.0, "ring": 0.1}, weights=THIRDS)
    assert stray.middle == pytest.approx(0.1)


THIRDS = dict.fromkeys((PHYSICS, "linear", "ring"), 1 / 3)


def test_typical_errors_are_as_large_as_most_and_not_as_the_largest() -> None:
    errors = [{"ring": size} for size in (0.01, -0.02, 0.03, -5.0)]
    assert typical_errors(errors)["ring"] == pytest.approx(1.4826 * 0.025, abs=1e-4)


def test_candidates_that_disagree_make_the_scale_larger() -> None:
    apart = Stack(logs={PHYSICS: 0.0, "ring": 0.2}, weights={PHYSICS: 0.5, "ring": 0.5}).variance
    assert apart == pytest.approx(0.01)
    assert scale(0.01, apart, 0.02) == pytest.approx(math.sqrt(5e-4 + apart))


def test_the_quantile_is_of_one_rank_more_than_its_share() -> None:
    assert quantile([float(num) for num in range(1, 40)]) == 38


def test_few_scores_have_a_larger_quantile_than_any_of_them() -> None:
    assert quantile([1.0] * 19) == 1.0
    assert quantile([1.0] * 18) == pytest.approx(2.16, abs=0.01)
    assert quantile([1.0, 2.0]) > 8
    assert quantile([0.1] * 17 + [9.0]) == 9.0


def test_the_quantiles_of_curves_decide_how_far_their_intervals_reach() -> None:
    [curve] = reported(rows(), [row("resnet50", 8, "ps_cpu")])
    assert curve.weighing is not None
    wider = {key: 2 * reach for key, reach in QUANTILES.items()}
    again = curve.weighing.predictive(quantiles=wider)
    assert math.log(again.high / again.low) == pytest.approx(2 * math.log(curve.high / curve.low))


def test_the_interval_of_one_count_is_that_of_the_physics_or_wider() -> None:
    [lone] = reported([one for one in rows() if one.work.num_gpus == 1], [row("vgg16", 2, "nccl")])
    assert lone.weighing is not None
    assert lone.weighing.kind == KNOWN_BOX
    assert lone.log_spread >= lone.weighing.physics.log_spread


def test_beside_one_count_of_gpus_stands_the_linear_rule_alone() -> None:
    [lone] = reported([one for one in rows() if one.work.num_gpus == 1], [row("vgg16", 2, "nccl")])
    assert {one.name for one in lone.candidates} == {PHYSICS, "linear"}


def bent(known: Row) -> Row:
    """Lose a tenth with each doubling, for a reason that no physics knows."""
    assert known.throughput
    return replace(known, throughput=known.throughput * 0.9 ** math.log2(known.work.num_gpus))


def test_the_rule_that_held_on_a_box_leads_where_the_physics_did_not() -> None:
    flat = [replace(one, throughput=100.0 * one.work.num_gpus) for one in rows()]
    box = replace(BOX, num_sockets=1)
    [found] = reported([bent(one) for one in flat], [row("vgg16", 8, "nccl")], box)
    weights = {one.name: one.weight for one in found.candidates}
    assert max(weights, key=weights.__getitem__) == "doubling"
    assert found.throughput == pytest.approx(800 * 0.9**3, rel=0.03)


def test_links_that_no_row_shows_are_left_to_the_physics() -> None:
    box = profile("dgx1_p100")
    [found] = reported(rows(), [row("vgg16", 8, "nccl", batch_size=32)], box)
    assert found.candidates == ()


def test_another_box_is_left_to_the_physics() -> None:
    faster = replace(BOX, pcie_gb_per_s=2 * BOX.pcie_gb_per_s)
    guess = Guess(hardware=BOX, reason="reported")
    [found] = predicted(rows(), [row("vgg16", 8, "nccl")], guess, faster)
    assert found.candidates == ()

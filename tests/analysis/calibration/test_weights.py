"""Candidates are weighed by their record on the same box; intervals by what others missed."""

import math
from dataclasses import replace

import pytest

from analysis.calibration.environments import Guess
from analysis.calibration.intervals import Quantiles, quantile, scale
from analysis.calibration.predicted import predicted
from analysis.calibration.row import Row
from analysis.calibration.weights import PHYSICS, Record, stacked
from costs.profiles import profile
from tests.analysis.calibration.test_fit import BOX, reported, row, rows

LOGS = {PHYSICS: 0.2, "linear": 0.0, "ring": 0.1, "amdahl": 0.5}


def test_without_a_record_half_is_physics_and_half_links_that_carry_more() -> None:
    found = stacked(LOGS, Record(), noise=0.01)
    assert found.weights == {PHYSICS: 0.5, "linear": 0.25, "ring": 0.25}
    assert found.middle == pytest.approx(0.125)


def test_what_was_far_off_on_the_box_has_hardly_any_weight() -> None:
    record = Record(errors=({PHYSICS: 0.2, "linear": 0.4, "ring": 0.01, "amdahl": -0.2},))
    found = stacked(LOGS, record, noise=0.01)
    assert found.weights["ring"] > 0.95
    assert sum(found.weights.values()) == pytest.approx(1)


def test_equal_records_keep_the_shares() -> None:
    record = Record(errors=(dict.fromkeys(LOGS, 0.05), dict.fromkeys(LOGS, -0.05)))
    found = stacked(LOGS, record, noise=0.01)
    assert found.weights == pytest.approx({PHYSICS: 0.5} | dict.fromkeys(list(LOGS)[1:], 1 / 6))


def test_candidates_that_disagree_make_the_scale_larger() -> None:
    apart = stacked(LOGS, Record(), noise=0.01).variance
    assert scale(0.01, apart, 0.5, 0.02) == pytest.approx(math.sqrt(2e-4 + apart))
    assert apart == pytest.approx(0.006875)


def test_the_quantile_is_of_one_rank_more_than_its_share() -> None:
    assert quantile([float(num) for num in range(1, 40)]) == 38
    assert quantile([1.0, 2.0]) == 2.0


def test_doubted_predictions_have_their_own_quantile() -> None:
    found = Quantiles(sound=2.0, doubted=5.0)
    assert found.reach(0.1, is_doubted=True) == pytest.approx(0.5)
    assert found.reach(0.1, is_doubted=False) == pytest.approx(0.2)


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
    assert found.throughput == pytest.approx(800 * 0.9**3, rel=0.02)


def test_links_that_no_row_shows_are_left_to_the_physics() -> None:
    box = profile("dgx1_p100")
    [found] = reported(rows(), [row("vgg16", 8, "nccl", batch_size=32)], box)
    assert found.candidates == ()


def test_another_box_is_left_to_the_physics() -> None:
    faster = replace(BOX, pcie_gb_per_s=2 * BOX.pcie_gb_per_s)
    guess = Guess(hardware=BOX, reason="reported")
    [found] = predicted(rows(), [row("vgg16", 8, "nccl")], guess, faster)
    assert found.candidates == ()

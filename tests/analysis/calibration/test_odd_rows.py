"""Rows as sources sometimes have them: one alone, contradictory, twice, or off by a thousand."""

import math
from dataclasses import replace

import pytest

from analysis.calibration.predictive import Predictive
from analysis.calibration.row import Row
from tests.analysis.calibration.test_fit import TRUE, reported, row, rows

TARGET = row("resnet50", 8, "ps_cpu")


def one(known: list[Row]) -> Predictive:
    [found] = reported(known, [TARGET])
    return found


def times(known: Row, factor: float) -> Row:
    assert known.throughput
    return replace(known, throughput=known.throughput * factor)


def test_one_row_is_enough_for_a_prediction_with_a_wide_interval() -> None:
    found = one([row("resnet50", 1, "ps_cpu", TRUE)])
    truth = row("resnet50", 8, "ps_cpu", TRUE).throughput
    assert truth is not None
    assert found.low < truth < found.high
    assert found.half_width > one(rows()).half_width


def test_rows_that_are_there_twice_change_no_prediction_by_more_than_their_noise() -> None:
    plain, twice = one(rows()), one([*rows(), *rows()])
    assert twice.throughput == pytest.approx(plain.throughput, rel=0.02)


def test_contradictory_rows_are_doubted_and_widen_the_interval() -> None:
    known = [*rows(), row("resnet50", 1, "ps_cpu", TRUE, 64, times=1.5)]
    found = one(known)
    assert any("contradicted each other" in reason for reason in found.uncertain)
    assert found.half_width > 1.5 * one(rows()).half_width


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_a_row_that_is_off_by_a_million_is_doubted_and_breaks_nothing(factor: float) -> None:
    known = [
        times(one, factor) if (one.work.num_gpus, one.strategy) == (4, TARGET.strategy) else one
        for one in rows()
    ]
    found = one(known)
    assert all(map(math.isfinite, (found.throughput, found.low, found.high)))
    assert found.uncertain


def test_a_stray_row_of_one_curve_hardly_moves_another() -> None:
    stray = row("vgg16", 4, "ps_cpu")
    known = [times(one, 3) if one.work == stray.work else one for one in rows()]
    assert one(known).throughput == pytest.approx(one(rows()).throughput, rel=0.1)

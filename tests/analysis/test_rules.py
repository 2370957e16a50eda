"""How curves are carried on to more GPUs."""

import math

import numpy as np
import pytest
from scipy.optimize import nnls

from analysis.commands.predict import Basis, by_rules, extrapolate


def efficient(*shares: float, counts: tuple[int, ...] = (1, 2, 4, 8)) -> dict[int, float]:
    """A curve of 100 items/s on one GPU, by its efficiency on each count."""
    return {count: 100 * count * share for count, share in zip(counts, shares, strict=False)}


def by_rule(rule: str, curve: dict[int, float], num_gpus: int) -> float:
    """The throughput by one rule."""
    logs = {count: math.log(count / throughput) for count, throughput in curve.items()}
    return num_gpus / math.exp(by_rules(logs, num_gpus)[rule])


def test_a_perfect_curve_stays_perfect():
    carried = extrapolate(efficient(1, 1, 1), 8)
    assert (carried.throughput, carried.basis) == (pytest.approx(800), Basis.CURVE)
    assert carried.low < 800 < carried.high


@pytest.mark.parametrize(
    ("curve", "rule", "throughput"),
    [
        (efficient(1, 0.9, 0.81), "linear", 648),
        (efficient(1, 0.9, 0.81), "doubling", 800 * 0.9**3),
        # t = 0.9 + 0.1 * 2 (n - 1) / n
        (efficient(1 / 0.9, 1, 1 / 1.05), "ring", 800 / 1.075),
    ],
)
def test_each_rule_carries_its_own_curve_on_exactly(curve, rule, throughput):
    assert by_rule(rule, curve, 8) == pytest.approx(throughput)


def test_no_part_of_a_time_is_below_0():
    efficiency = np.array([1, 1.1, 1.2])
    (alone, _), _ = nnls(np.column_stack([efficiency, efficiency * [0, 1, 1.5]]), np.ones(3))
    assert by_rule("ring", efficient(*efficiency), 8) == pytest.approx(800 / alone)


def test_a_curve_that_grows_faster_than_its_gpus_gets_no_rule_with_a_gain():
    assert by_rule("ring", efficient(1, 1.02, 1.04), 8) <= 800 * 1.04


def test_a_rule_that_other_curves_of_the_box_follow_weighs_more():
    """What the curve itself leaves open, the largest counts of others decide."""
    curve = efficient(1, 0.9, 0.85)
    falling = [efficient(1, 0.9, 0.81), efficient(1, 0.8, 0.64), efficient(1, 0.7, 0.49)]
    flat = [efficient(1, 0.9, 0.9), efficient(1, 0.8, 0.8), efficient(1, 0.7, 0.7)]
    assert extrapolate(curve, 8, falling).throughput < extrapolate(curve, 8).throughput
    assert extrapolate(curve, 8, flat).throughput > extrapolate(curve, 8).throughput


@pytest.mark.parametrize(
    ("curve", "num_gpus", "fast_group", "basis"),
    [
        (efficient(1, 0.9, 0.8), 8, 4, Basis.SLOWER_LINKS),
        (efficient(1, 0.9, 0.8), 4, 4, Basis.CURVE),  # not beyond them
        (efficient(1, 0.9, 0.8, 0.7), 16, 4, Basis.CURVE),  # the curve has crossed them
        (efficient(1, 0.99, 0.98), 8, 4, Basis.CURVE),  # nothing is lost yet
        (efficient(1, 0.9, 0.8), 8, None, Basis.CURVE),
    ],
)
def test_a_loss_grows_with_each_gpu_beyond_the_fastest_links(curve, num_gpus, fast_group, basis):
    known = {n: v for n, v in curve.items() if n < num_gpus}
    carried = extrapolate(known, num_gpus, (), fast_group)
    assert carried.basis == basis
    if basis is Basis.SLOWER_LINKS:
        assert carried.throughput < by_rule("doubling", known, num_gpus)


def test_beyond_the_fastest_links_a_curve_follows_amdahl():
    curve = {n: 100 * n / (0.95 + 0.05 * n) for n in (1, 2, 4)}
    carried = extrapolate(curve, 8, (), 4)
    assert (carried.throughput, carried.basis) == (pytest.approx(800 / 1.35), Basis.SLOWER_LINKS)


def test_intervals_are_wider_beyond_the_fastest_links_even_where_nothing_is_lost():
    near, beyond = (extrapolate(efficient(1, 0.99, 0.98), 8, (), group) for group in (None, 4))
    assert beyond.high / beyond.low > 1.5 * near.high / near.low


def test_gpus_after_those_that_added_nothing_add_nothing():
    """alexnet on 1 to 4 V100 of tensorflow/benchmarks#359, which had 31 % of the ideal on 6."""
    curve = efficient(1, 1.014, 0.964, 0.748, counts=(1, 2, 3, 4))
    carried = extrapolate(curve, 6)
    assert (carried.throughput, carried.basis) == (pytest.approx(curve[4]), Basis.NO_GAIN)
    assert carried.low < 100 * 6 * 0.305


def test_one_count_loses_what_curves_usually_lose():
    carried = extrapolate({1: 100.0}, 8)
    assert carried.basis is Basis.ONE_COUNT
    assert 700 < carried.throughput < 740
    assert carried.low < 550
    assert carried.high > 800


def test_an_interval_is_wider_the_more_a_curve_has_lost_and_the_further_it_is_carried():
    widths = [
        carried.high / carried.low
        for carried in (
            extrapolate(efficient(1, 0.99, 0.98), 8),
            extrapolate(efficient(1, 0.9, 0.8), 8),
            extrapolate(efficient(1, 0.9, 0.8), 16),
        )
    ]
    assert widths == sorted(widths)
    assert len(set(widths)) == 3


def test_no_more_than_as_many_times_the_last_throughput_is_predicted():
    """A curve that lost late was predicted to gain more than twice by twice the GPUs."""
    curve = {8: 1000.0, 16: 1950.0, 32: 3700.0, 64: 6000.0}
    assert extrapolate(curve, 128).throughput <= 12_000

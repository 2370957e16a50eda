"""The quantiles of the studentized range are those of tables."""

import pytest

from analysis.statistics.studentized_range import pair_level, pair_quantile
from scalemark.stats.welch import upper_quantile


@pytest.mark.parametrize(
    ("num", "freedom", "quantile"),
    [
        (3, 5, 4.602),
        (5, 10, 4.654),
        (10, 2, 13.99),
        (20, 1, 59.56),
        (20, 20, 5.714),
        (60, 60, 6.093),
    ],
)
def test_quantiles_are_those_of_tables(num, freedom, quantile):
    assert pair_quantile(num, freedom) * 2**0.5 == pytest.approx(quantile, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("num", [3, 20, 60])
@pytest.mark.parametrize("freedom", [1, 4, 200])
def test_quantiles_are_those_of_scipy(num, freedom):
    from scipy.stats import studentized_range

    exact = studentized_range.isf(0.025, num, freedom)
    assert pair_quantile(num, freedom, 0.025) * 2**0.5 == pytest.approx(exact, rel=1e-4)


def test_of_two_it_is_the_quantile_of_student():
    assert pair_quantile(2, 7) == upper_quantile(0.025, 7)
    assert pair_level(2, 7) == pytest.approx(0.05)


def test_of_more_choices_a_pair_has_a_smaller_level_than_bonferroni_asks_for():
    assert 0.05 / 190 < pair_level(20, 8) < 0.05 / 19

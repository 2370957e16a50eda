"""Chances and quantiles are those that scipy computes."""

import math

import pytest
from scipy import special, stats

from scalemark.stats.distributions import beta_share, chance_beyond, chance_of_f, upper_quantile


@pytest.mark.parametrize("freedom", [1, 1.5, 2, 3, 4.7, 7, 10, 25, 100, 1e4, math.inf])
@pytest.mark.parametrize("level", [0.4, 0.05, 0.003, 1e-5, 1e-14])
def test_a_quantile_is_where_its_chance_is(level, freedom):
    exact = stats.t.isf(level, freedom)
    assert upper_quantile(level, freedom) == pytest.approx(exact, rel=1e-9)
    assert chance_beyond(exact, freedom) == pytest.approx(level, rel=1e-9)
    assert chance_beyond(-exact, freedom) == pytest.approx(1 - level, rel=1e-9)


@pytest.mark.parametrize("x", [0.0, 1e-6, 0.01, 0.3, 0.9, 0.999, 1.0])
@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (3, 0.5), (1, 30), (500, 700), (5000, 2)])
def test_a_share_of_beta(a, b, x):
    assert beta_share(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-250)


def test_a_chance_of_f():
    assert chance_of_f(3.2, 2, 9) == pytest.approx(stats.f.sf(3.2, 2, 9), rel=1e-9)

"""The quantiles agree with scipy's."""

import math

import pytest
from scipy import stats
from scipy.special import stdtrit

from scalemark.stats.welch import log_quantile, upper_quantile


@pytest.mark.parametrize(
    "freedom", [1.0, 1.0001, 1.3, 2.0, 2.5, 3.99, 4.0, 7.7, 12.0, 60.0, 1e3, 1e6, 1e12]
)
def test_the_quantile_is_right_to_nine_digits(freedom):
    assert math.exp(log_quantile(freedom)) == pytest.approx(stdtrit(freedom, 0.975), rel=1e-9)


def test_with_endless_freedom_it_is_that_of_the_normal_distribution():
    assert math.exp(log_quantile(math.inf)) == pytest.approx(1.959963984540054, rel=1e-9)


@pytest.mark.parametrize("freedom", [1, 1.5, 2, 3, 4.7, 7, 10, 25, 100, 1e4, math.inf])
@pytest.mark.parametrize("level", [0.4, 0.05, 0.003, 1e-5])
def test_any_level_is_that_of_scipy(level, freedom):
    assert upper_quantile(level, freedom) == pytest.approx(stats.t.isf(level, freedom), rel=1e-6)
    assert math.exp(log_quantile(freedom, level)) == pytest.approx(
        stats.t.isf(level / 2, freedom), rel=1e-6
    )

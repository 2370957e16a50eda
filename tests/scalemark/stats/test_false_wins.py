"""The error of a series is divided among its proposals, and never spent twice."""

import numpy as np
import pytest

from scalemark.stats.welch import level_of


def test_a_series_without_wins_never_spends_more_than_is_allowed():
    spent = sum(level_of(number, 0, 0.05) for number in range(1, 100_001))
    assert 0.049 < spent < 0.05


def test_each_win_before_raises_the_level_as_much():
    assert level_of(7, 3, 0.05) == pytest.approx(4 * level_of(7, 0, 0.05))


def test_the_level_is_a_probability():
    assert level_of(1, 10**6, 0.5) == 1


def test_of_all_wins_few_are_false_by_e_values_that_spend_all_they_may():
    """An e-value of 1 / level with the probability `level` is the worst that there is."""
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(200):
        num_wins = num_false = 0
        for number in range(1, 401):
            is_null = number % 10 > 0
            is_win = not is_null or rng.random() < level_of(number, num_wins, 0.2)
            num_wins += is_win
            num_false += is_win and is_null
        shares.append(num_false / max(1, num_wins))
    assert 0.02 < np.mean(shares) <= 0.2

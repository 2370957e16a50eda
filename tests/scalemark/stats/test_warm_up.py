"""The rest of a warm-up is found where it is, whatever pauses there are, and seldom elsewhere."""

import numpy as np
import pytest

from scalemark.stats.within_process import rough_warm_up, warm_up

NUM = 100


def steps(size=0.1, length=0.1, noise=0.01, num=NUM, seed=1):
    """Steps that take 1 each after a warm-up."""
    fading = size * np.exp(-(np.arange(num) + 0.5) / (length * num))
    return 1 + fading + noise * np.random.default_rng(seed).normal(size=num)


@pytest.mark.parametrize("num", [100, 5000])
@pytest.mark.parametrize("size", [0.1, -0.1])
def test_it_takes_its_share_of_the_time(size, num):
    found = warm_up(steps(size, num=num))
    assert found.extra.mean() == pytest.approx(size / 10, rel=0.2)
    assert found.extra[0] == pytest.approx(size, rel=0.2)


def test_steady_steps_seldom_have_one():
    found = [warm_up(steps(0.0, seed=seed)) for seed in range(200)]
    assert sum(one is not None for one in found) <= 16


def test_a_line_equal_steps_and_few_of_them_have_none():
    for values in (np.linspace(1.0, 1.2, NUM), np.ones(NUM), steps(num=69)):
        assert warm_up(values) is None
        assert np.abs(rough_warm_up(values)).max() < 1e-9


def test_pauses_hardly_move_the_guess():
    calm = steps()
    paused = calm.copy()
    paused[[2, 17, 18, 60]] += 5.0
    assert rough_warm_up(paused) == pytest.approx(rough_warm_up(calm), abs=0.03)


def test_the_longer_it_lasts_the_less_is_known_of_what_follows():
    short, long = (warm_up(steps(0.3, length)).inflation for length in (0.03, 0.15))
    assert 1.0 < short < 2.0 < 5.0 < long

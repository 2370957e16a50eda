"""The noise of simulated steps is what was injected, and a function of its seed."""

import statistics

import numpy as np
import pytest

from benchmarks.step_times import step_times
from simulator.run import process_factor

MANY = 20_000


def times(seed: int = 1, num_steps: int = MANY, **injected: float) -> list[float]:
    return step_times(np.random.default_rng(seed), 2.0, injected, num_steps)


def test_without_noise_all_steps_are_equal():
    assert times(num_steps=5) == [2.0] * 5


def test_the_same_seed_gives_the_same_steps_and_another_gives_others():
    assert times(1, 10, noise=0.1) == times(1, 10, noise=0.1) != times(2, 10, noise=0.1)


def test_noise_changes_the_spread_and_not_the_mean():
    steps = times(noise=0.5)
    assert statistics.fmean(steps) == pytest.approx(2.0, rel=0.03)
    assert statistics.stdev(steps) == pytest.approx(1.0, rel=0.1)


def test_neighboring_steps_are_alike():
    steps = np.asarray(times(noise=0.1))
    assert np.corrcoef(steps[:-1], steps[1:])[0, 1] == pytest.approx(0.3, abs=0.05)


def test_processes_have_a_pace_of_their_own():
    factors = [
        process_factor(np.random.default_rng(seed), {"process_noise": 0.05}) for seed in range(2000)
    ]
    assert statistics.fmean(factors) == pytest.approx(1.0, abs=0.005)
    assert statistics.stdev(factors) == pytest.approx(0.05, rel=0.1)


def test_drift_is_the_growth_from_the_first_step_to_the_last():
    steps = times(num_steps=101, drift=0.1)
    assert (steps[-1] - steps[0]) / statistics.fmean(steps) == pytest.approx(0.1)
    assert statistics.fmean(steps) == pytest.approx(2.0)

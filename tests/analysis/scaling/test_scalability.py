"""The laws of scalability are found again in curves that were made by them, and are not reported where they do not hold."""

import random
from dataclasses import replace

import pytest

from analysis.results import Baseline
from analysis.scaling.scalability import fitted, serial_share
from tests.analysis.scaling.test_paying import fake


def by_law(num, sigma, kappa):
    return 100.0 * num / (1 + sigma * (num - 1) + kappa * num * (num - 1))


@pytest.mark.parametrize(("sigma", "kappa"), [(0.1, 0.0), (0.0, 0.01), (0.05, 0.004), (0.0, 0.0)])
def test_a_curve_made_by_the_law_gives_its_parameters_back(sigma, kappa):
    law = fitted([fake(num, by_law(num, sigma, kappa)) for num in (1, 2, 4, 6, 8)])
    assert law is not None
    assert (law.sigma, law.kappa) == (
        pytest.approx(sigma, abs=1e-4),
        pytest.approx(kappa, abs=1e-5),
    )
    assert law.describes


def test_the_intervals_of_a_noisy_curve_hold_its_parameters():
    chance = random.Random(3)
    hits = [0, 0]
    for _ in range(60):
        of = [
            fake(
                num, *(by_law(num, 0.06, 0.004) * chance.lognormvariate(0, 0.01) for _ in range(3))
            )
            for num in (1, 2, 4, 8)
        ]
        law = fitted(of)
        assert law is not None
        hits[0] += law.sigma_low <= 0.06 <= law.sigma_high
        hits[1] += law.kappa_low <= 0.004 <= law.kappa_high
    assert min(hits) >= 54


def test_three_numbers_of_gpus_are_too_few():
    assert fitted([fake(num, by_law(num, 0.1, 0.0)) for num in (1, 2, 4)]) is None


def test_a_law_that_misses_the_curve_says_so():
    law = fitted([fake(1, 100.0), fake(2, 200.0), fake(4, 210.0), fake(8, 800.0)])
    assert law is not None
    assert not law.describes


@pytest.mark.parametrize(
    ("strong", "name", "share"), [(True, "Amdahl", 1 / 3), (False, "Gustafson", 2 / 3)]
)
def test_the_serial_share_is_amdahls_or_gustafsons(strong, name, share):
    baseline = Baseline(
        trial_id="1",
        strategy="ps_cpu",
        num_gpus=1,
        throughput=100.0,
        repeats=(99.0, 100.0**2 / 99.0),
    )
    found = serial_share(
        replace(fake(4, 199.0, 200.0**2 / 199.0), baseline=baseline), strong=strong
    )
    assert found is not None
    assert (found.law, found.share) == (name, pytest.approx(share))
    assert found.low is not None
    assert found.high is not None
    assert found.low < share < found.high

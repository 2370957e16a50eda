"""The fit of a scaling law finds what scipy's finds, on curves of every shape."""

import numpy as np
import pytest
from scipy.optimize import curve_fit

from analysis.scaling.law_fit import fit, log_images

NUM = np.repeat([1.0, 2.0, 4.0, 8.0], 3)


def by_scipy(num, logs):
    def reported(num, *law):
        return log_images(num, np.array(law))

    bounds = ([-np.inf, 0, 0], [np.inf] * 3)
    found, covariance = curve_fit(
        reported,
        num,
        logs,
        p0=(logs[0], 0.05, 0.001),
        bounds=bounds,
        x_scale=(1, 0.01, 0.001),
        xtol=1e-12,
    )
    return found, np.sqrt(np.diag(covariance))


def loss(num, logs, law):
    return float(np.sum((logs - log_images(num, law)) ** 2))


@pytest.mark.parametrize("seed", range(10))
def test_noisy_curves_have_the_parameters_and_errors_that_scipy_finds(seed):
    random = np.random.default_rng(seed)
    logs = log_images(
        NUM, np.array([4.6, random.uniform(0, 0.3), random.uniform(0, 0.02)])
    ) + random.normal(0, 0.01, len(NUM))
    (found, errors), (wanted, wanted_errors) = fit(NUM, logs), by_scipy(NUM, logs)
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-5)
    assert errors == pytest.approx(wanted_errors, rel=1e-2)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 2.2, 4.9, 11),
        (1, 1, 1, 1),
        (1, 0.5, 0.2, 0.1),
        (1, 5, 1, 5),
        (1, 1.9, 0.1, 20),
        (1e-6, 1, 2, 3),
    ],
)
def test_curves_that_no_law_makes_are_fitted_as_well_as_by_scipy(shape):
    logs = np.log(np.repeat(shape, 3))
    found, errors = fit(NUM, logs)
    assert loss(NUM, logs, found) <= loss(NUM, logs, by_scipy(NUM, logs)[0]) * (1 + 1e-6)
    assert found[1] >= 0
    assert found[2] >= 0
    assert np.all(np.isfinite(errors))

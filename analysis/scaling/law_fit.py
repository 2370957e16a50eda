"""Fits the Universal Scalability Law to a curve by least squares of log throughput.

Steps are those of Levenberg and Marquardt within bounds, as of `scipy.optimize.curve_fit`, and
several times faster for so few parameters: a campaign has thousands of curves.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_START = (0.05, 0.001)  # sigma and kappa
_LEAST = np.array([-np.inf, 0.0, 0.0])
_MOST_STEPS = 200
_CLOSE = 1e-10  # of a step, over what it changes
_STEEPEST = 1e12  # of the damping: no step as short as this makes it better


def log_images(num: Floats, law: Floats) -> Floats:
    """Return the log throughput on `num` GPUs by a law: log rate, sigma, kappa."""
    log_rate, sigma, kappa = law
    logs: Floats = log_rate + np.log(num) - np.log1p((num - 1) * (sigma + kappa * num))
    return logs


def fit(num: Floats, logs: Floats) -> tuple[Floats, Floats]:
    """Return a law, as `log_images` takes it, and the standard errors of its three parameters.

    `num` (processes,) are GPUs and `logs` (processes,) their log throughput, of four or more.
    """
    law = np.array([logs[0] - np.log(num[0]), *_START])
    missed = logs - log_images(num, law)
    loss, damping = missed @ missed, 1e-3
    for _ in range(_MOST_STEPS):
        slopes = _slopes(num, law)
        downhill = slopes.T @ missed
        free = (law > _LEAST) | (downhill > 0)
        normal = slopes[:, free].T @ slopes[:, free]
        step = np.zeros(3)
        step[free] = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), downhill[free])
        tried = np.maximum(law + step, _LEAST)
        missed_then = logs - log_images(num, tried)
        loss_then = missed_then @ missed_then
        is_close = bool(np.all(np.abs(tried - law) <= _CLOSE * (np.abs(law) + _CLOSE)))
        if loss_then <= loss:
            law, missed, loss, damping = tried, missed_then, loss_then, damping / 10
        else:
            damping *= 10
        if is_close or damping > _STEEPEST:
            break
    slopes = _slopes(num, law)
    variances = np.diag(np.linalg.pinv(slopes.T @ slopes)) * loss / (len(logs) - 3)
    return law, np.sqrt(variances)


def _slopes(num: Floats, law: Floats) -> Floats:
    """Return the derivatives of `log_images` by each parameter (processes, 3)."""
    longer = 1 + (num - 1) * (law[1] + law[2] * num)
    return np.stack([np.ones_like(num), (1 - num) / longer, (1 - num) * num / longer], axis=1)

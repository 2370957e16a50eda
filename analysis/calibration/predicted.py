"""Predict from rows, by the box's profile or by all boxes that it may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.calibration.environments import Guess
from analysis.calibration.fit import Fit, fit
from analysis.calibration.predictive import Predictive, predictive
from analysis.calibration.priors import LEFT_OUT, LeftOut
from analysis.calibration.row import Row
from costs.hardware import Hardware


def predicted(
    rows: Sequence[Row],
    targets: Sequence[Row],
    guess: Guess,
    target_hardware: Hardware | None = None,
    *,
    left_out: LeftOut = LEFT_OUT,
) -> list[Predictive]:
    """Predict targets; `target_hardware` where it is another than the rows'.

    Raises MissingLinkError, and ValueError for what the hardware cannot do.
    """
    if not targets:
        return []
    return predictive(weighed(rows, targets, guess, target_hardware, left_out=left_out))


def weighed(
    rows: Sequence[Row],
    targets: Sequence[Row],
    guess: Guess,
    target_hardware: Hardware | None = None,
    *,
    left_out: LeftOut = LEFT_OUT,
) -> list[tuple[float, Fit]]:
    """Return a fit for each box that it may be, with its probability by the rows."""
    if guess.is_known:
        return [(1.0, fit(rows, targets, guess.hardware, target_hardware, left_out=left_out))]
    fits: list[Fit] = []
    logs = []
    for box in guess.others:
        one = fit(
            rows,
            targets,
            box.hardware,
            target_hardware,
            is_known=False,
            left_out=left_out,
            start=fits[-1].vector if fits else None,  # the rates of a box like it are near
        )
        fits.append(one)
        logs.append(np.log(box.weight) + one.log_evidence)
    weights = np.exp(np.array(logs) - max(logs))
    return list(zip((weights / weights.sum()).tolist(), fits, strict=True))

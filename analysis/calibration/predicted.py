"""What rows of a place tell of others: by its profile, or by all boxes that it may be, each as far
as the rows speak for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.calibration.fit import Fit, fit
from analysis.calibration.places import Guess
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
    """`target_hardware` where it is another than the rows'.

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
    """A fit for each box that it may be, with its probability."""
    if guess.is_known:
        return [(1.0, fit(rows, targets, guess.hardware, target_hardware, left_out=left_out))]
    fits: list[Fit] = []
    for one in guess.others:
        start = fits[-1].vector if fits else None
        fits.append(
            fit(
                rows,
                targets,
                one.hardware,
                target_hardware,
                is_known=False,
                left_out=left_out,
                start=start,
            )
        )
    logs = np.array(
        [np.log(box.weight) + one.log_evidence for box, one in zip(guess.others, fits, strict=True)]
    )
    weights = np.exp(logs - logs.max())
    return list(zip((weights / weights.sum()).tolist(), fits, strict=True))

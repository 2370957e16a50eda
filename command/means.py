"""Finds how many items a step has by the means that a program prints, and when it printed them.

```
  of all steps since T0:   mean = items x steps / (t - T0)      t = T0 + items x (steps / mean)
  smoothed:                mean = items x d steps / dt          t = T0 + items x sum(d steps / mean)
```

Neither depends on how long the program compiled before its first line. Which one it prints, and
whether a resumed program counts its steps from where it resumed, is seen by what fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from command.points import Column

LEAST_SPAN_S = 0.05
_AS_GOOD = 1e-3  # misfits, as shares of the time, by less than which two are alike


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A line through what was seen."""

    items_per_step: float
    misfit: float  # standard deviation of times from the line, over the time between the ends


def fitted(steps: Column, arrivals: Column, means: Column, begin_s: float) -> Fit | None:
    """Fit the means of lines that came from `begin_s` on; None where these are too close, or few.

    What came before tells only where the program resumed.
    """
    since = arrivals >= begin_s
    if since.sum() < 2:
        return None
    resumed_at = max(0.0, steps[0] - float(np.median(np.diff(steps))))
    steps, arrivals, means = steps[since], arrivals[since], means[since]
    is_last = np.append(np.diff(arrivals) > 0, True)  # of lines that came at once
    steps, arrivals, means = steps[is_last], arrivals[is_last], means[is_last]
    if len(steps) < 2 or arrivals[-1] - arrivals[0] < LEAST_SPAN_S:
        return None
    gaps = np.diff(steps)
    per_mean = (
        steps / means,
        (steps - resumed_at) / means,
        np.concatenate([[0.0], np.cumsum(gaps / means[1:])]),
    )
    fits = [fit for fit in (_line(column, arrivals) for column in per_mean) if fit]
    if not fits:
        return None
    best = min(fit.misfit for fit in fits)
    return next(fit for fit in fits if fit.misfit <= best + _AS_GOOD)


def _line(per_mean: Column, arrivals: Column) -> Fit | None:
    if np.ptp(per_mean) <= 0:
        return None
    slope, begin_s = np.polyfit(per_mean, arrivals, 1)
    if slope <= 0:
        return None
    off_s = arrivals - begin_s - slope * per_mean
    span_s = arrivals[-1] - arrivals[0]
    return Fit(items_per_step=float(slope), misfit=float(np.std(off_s) / span_s))

"""Rules that others watch nights with. Each looks at one trial alone, and names the nights after
which it would alarm.

Alarms are truths (cells, nights): that a trial is called slower after this night.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import stats

from analysis.guard.groups import Floats, Truths

_FEWEST = 2  # nights of a new level
_NEAR = 5  # nights between dates of one change


def last_night(logs: Floats, least: float = 0.05) -> Truths:
    """Alarm where a night is 5 % slower than the one before."""
    alarms = np.zeros(logs.shape, dtype=bool)
    alarms[:, 1:] = np.diff(logs) < np.log1p(-least)
    return alarms


def three_sigma(logs: Floats, width: int = 14) -> Truths:
    """Alarm where a night is 3 standard deviations below the mean of the 14 before."""
    before = sliding_window_view(logs, width, axis=1)[:, :-1]
    alarms = np.zeros(logs.shape, dtype=bool)
    alarms[:, width:] = logs[:, width:] < before.mean(axis=2) - 3 * before.std(axis=2, ddof=1)
    return alarms


def perfherder(logs: Floats, width: int = 12, least: float = 7.0) -> Truths:
    """Alarm where Student's t of 12 nights against the 12 before is 7 or more, as Mozilla does."""
    windows = sliding_window_view(logs, width, axis=1)
    before, after = windows[:, :-width], windows[:, width:]
    error = np.sqrt((before.var(axis=2, ddof=1) + after.var(axis=2, ddof=1)) / width)
    alarms = np.zeros(logs.shape, dtype=bool)
    alarms[:, 2 * width - 1 :] = (before.mean(axis=2) - after.mean(axis=2)) / error >= least
    return alarms


def e_divisive(logs: Floats, width: int = 50, level: float = 0.001) -> Truths:
    """Alarm where E-divisive (Matteson & James 2014) splits the last 50 nights, and a t-test of
    both sides has p below 0.001: the rule of Hunter and Otava.
    """
    num_nights = logs.shape[1]
    alarms = np.zeros(logs.shape, dtype=bool)
    begins = np.zeros(logs.shape, dtype=np.intp)
    for night in range(10, num_nights):
        start = max(night - width + 1, 0)
        window = logs[:, start : night + 1]
        split = _best_split(window)
        is_new = np.arange(window.shape[1]) >= split[:, None]
        num = is_new.sum(axis=1)
        old_num = window.shape[1] - num
        new = (window * is_new).sum(axis=1) / num
        old = (window * ~is_new).sum(axis=1) / old_num
        left = ((window - np.where(is_new, new[:, None], old[:, None])) ** 2).sum(axis=1)
        error = np.sqrt(left / (window.shape[1] - 2) * (1 / num + 1 / old_num))
        p = 2 * stats.t.sf(np.abs(new - old) / error, window.shape[1] - 2)
        alarms[:, night] = (p < level) & (new < old)
        begins[:, night] = start + split
    return _first_of_each(alarms, begins)


def _best_split(window: Floats) -> np.ndarray:
    """Return for each cell the first value after the split with the largest energy distance."""
    num = window.shape[1]
    apart = np.abs(window[:, :, None] - window[:, None, :])
    # within the first k values, and of these with all: by running sums over both
    within = np.cumsum(np.cumsum(apart, axis=1), axis=2)
    first = np.diagonal(within, axis1=1, axis2=2)
    with_all = within[:, :, -1]
    sizes = np.arange(1, num + 1, dtype=float)
    rest = num - sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        between = (with_all - first) / (sizes * rest)
        last = with_all[:, [-1]] - 2 * with_all + first
        energy = 2 * between - first / sizes**2 - last / rest**2
        energy *= sizes * rest / num
    energy[:, : _FEWEST - 1] = -np.inf
    energy[:, num - _FEWEST :] = -np.inf
    split: np.ndarray = energy.argmax(axis=1) + 1
    return split


def _first_of_each(alarms: Truths, begins: np.ndarray) -> Truths:
    """Keep of each cell the first alarm of a change, which may be dated some nights off."""
    kept = np.zeros_like(alarms)
    for cell in range(len(alarms)):
        known: list[int] = []
        for night in np.flatnonzero(alarms[cell]):
            begin = int(begins[cell, night])
            if all(abs(begin - other) > _NEAR for other in known):
                kept[cell, night] = True
            known.append(begin)
    return kept

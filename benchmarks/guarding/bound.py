"""How many regressions any rule can find within some nights, at one false alarm a year.

A rule that alarms once a year for nothing does so within 3 given nights with probability 3 / 365 on
average over the year. So it finds a regression that begins in the first of them no more often than
the best test of that level does (Neyman and Pearson): the power of a test is concave in its level,
so it gains nothing by being stricter in some weeks than in others. The best test knows all but
chance: each trial's level, noise and drift, the night, and the size. It also knows the trials
(`of_known_trials`), or knows from which groups they were drawn (`of_drawn_trials`: the likelihood
ratio of the mixture of groups; its power is simulated).

No rule reaches that, for none is told the night. `watched` simulates one that is not: after each
night it adds the likelihood ratios of all groups and of the last 3 nights as the first, for known
levels, noise, drift and size (as Xie & Siegmund 2013 do for unknown sensors).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from scipy import stats
from scipy.special import logsumexp

from analysis.history.sums import Floats, Places

NIGHTS_A_YEAR = 365
_CHUNKS = 50
_DRAWS = 4_000  # in each chunk, without a regression
_YEARS = 4  # in each chunk, without a regression, for a rule that watches each night
_HITS = 8_000


def of_known_trials(groups: Sequence[Places], size: float, noise: float, nights: int) -> float:
    """Return the share of regressions of these groups that can be found within so many nights."""
    sizes = np.array([len(group) for group in groups])
    distance = -np.log1p(-size) * np.sqrt(nights * sizes) / noise
    least = stats.norm.isf(nights / NIGHTS_A_YEAR)
    return float(np.mean(stats.norm.cdf(distance - least)))


def of_drawn_trials(
    groups: Sequence[Places], size: float, noise: float, nights: int, random: Generator
) -> float:
    """Return the same where only the groups are known from which the trials are drawn."""
    is_hit = _matrix(groups)
    sums = np.sqrt(nights) * noise
    num_cells = is_hit.shape[1]
    quiet = [
        _mixture(sums * random.normal(size=(_DRAWS, num_cells)), is_hit, size, noise, nights)
        for _ in range(_CHUNKS)
    ]
    least = np.quantile(np.concatenate(quiet), 1 - nights / NIGHTS_A_YEAR)
    hits = is_hit[random.integers(len(groups), size=_HITS)] * nights * np.log1p(-size)
    drawn = hits + sums * random.normal(size=hits.shape)
    return float(np.mean(_mixture(drawn, is_hit, size, noise, nights) >= least))


def watched(
    groups: Sequence[Places], size: float, noise: float, nights: int, random: Generator
) -> float:
    """Return the share that a rule finds which knows all but night and trials."""
    is_hit = _matrix(groups)
    shape = (_YEARS, NIGHTS_A_YEAR, is_hit.shape[1])
    quiet = [
        _by_night(noise * random.normal(size=shape), is_hit, size, noise, nights)
        for _ in range(_CHUNKS)
    ]
    least = _least(np.concatenate(quiet), nights)
    hits = is_hit[random.integers(len(groups), size=_HITS)] * np.log1p(-size)
    drawn = noise * random.normal(size=(_HITS, 2 * nights - 1, is_hit.shape[1]))
    drawn[:, nights - 1 :] += hits[:, None]
    found = _by_night(drawn, is_hit, size, noise, nights)[:, nights - 1 :] >= least
    return float(np.mean(found.any(axis=1)))


def _matrix(groups: Sequence[Places]) -> Floats:
    is_hit = np.zeros((len(groups), 1 + max(int(group.max()) for group in groups)))
    for place, group in enumerate(groups):
        is_hit[place, group] = 1.0
    return is_hit


def _mixture(sums: Floats, is_hit: Floats, size: float, noise: float, nights: int) -> Floats:
    """Return the log likelihood ratio of a regression of any group, of sums (..., cells) of
    nights.
    """
    step = -np.log1p(-size)
    ratios = -step * (sums @ is_hit.T) - nights * step**2 / 2 * is_hit.sum(axis=1)
    found: Floats = logsumexp(ratios / noise**2, axis=-1)
    return found


def _by_night(logs: Floats, is_hit: Floats, size: float, noise: float, nights: int) -> Floats:
    """Return the log of the summed ratios after each night of logs (years, nights, cells)."""
    sums = np.cumsum(logs, axis=1)
    ratios = []
    for width in range(1, nights + 1):
        of_width = sums.copy()
        of_width[:, width:] -= sums[:, :-width]
        ratio = _mixture(of_width, is_hit, size, noise, width)
        ratio[:, : width - 1] = -np.inf
        ratios.append(ratio)
    found: Floats = logsumexp(ratios, axis=0)
    return found


def _least(quiet: Floats, nights: int) -> float:
    """Return what is exceeded once a year (years, nights); alarms fewer nights apart are one."""
    low, high = float(quiet.min()), float(quiet.max())
    while high - low > 1e-3:  # of a log likelihood
        middle = (low + high) / 2
        is_above = quiet >= middle
        recent = np.cumsum(is_above, axis=1) - is_above
        recent[:, nights:] -= np.cumsum(is_above, axis=1)[:, :-nights]
        num_alarms = np.sum(is_above & (recent == 0))
        low, high = (middle, high) if num_alarms > len(quiet) else (low, middle)
    return high

"""Learns night by night how much cells, and groups of cells, differ by chance alone."""

from __future__ import annotations

import numpy as np

from analysis.history.groups import Membership
from analysis.history.sums import Floats, Truths

LEAST_NOISE = 0.001  # of a logarithm: no machine is steadier than 0.1 %
_FEWEST_STEPS = 8  # from one night to the next, before anything is known
_MEMORY = 90  # nights, of the noise of a cell
_MEMORY_OF_GROUPS = 180  # nights
_MEMORY_OF_SPREAD = 120  # nights
_FIRST_SPREAD = 10  # nights, for which nights count as independent
_CLIP = 3.0  # standard deviations: a night counts as no more
_FREE_PER_STEP = 2 / 3  # degrees of freedom of a step, which shares a night with the next


class CellNoise:
    """The variance of each cell over nights, from its steps from one night to the next: drift and
    changes of level hardly count in them.
    """

    def __init__(self, num_cells: int) -> None:
        self._variance = np.zeros(num_cells)
        self._num = np.zeros(num_cells)
        self._last = np.full(num_cells, np.nan)

    @property
    def variance(self) -> Floats:
        return np.maximum(self._variance, LEAST_NOISE**2)

    @property
    def is_known(self) -> Truths:
        return self._num >= _FEWEST_STEPS

    @property
    def freedom(self) -> Floats:
        return np.minimum(self._num, _MEMORY) * _FREE_PER_STEP

    def learn(self, logs: Floats, is_new_level: Truths) -> None:
        """Take in a night; a step to a new level is no noise."""
        known = np.isfinite(logs)
        stepped = known & np.isfinite(self._last) & ~is_new_level
        squared = np.where(stepped, (logs - self._last) ** 2 / 2, 0.0)
        most = np.where(self.is_known, _CLIP**2 * self.variance, np.inf)
        self._num += stepped
        share = stepped / np.clip(self._num, 1, _MEMORY)
        self._variance += share * (np.minimum(squared, most) - self._variance)
        self._last = np.where(known, logs, self._last)


class GroupNoise:
    """How much farther the means of groups go than those of independent cells and nights would:
    cells of a machine have bad nights together, and some nights resemble those before them.
    """

    def __init__(self, membership: Membership, num_windows: int) -> None:
        self._membership = membership
        num_groups = len(membership.is_single)
        self._steps = np.ones(num_groups)  # variance of steps of the mean, over the expected one
        self._num_steps = np.zeros(num_groups)
        self._spread = np.ones((num_windows, num_groups))  # mean square of scores
        self._num_nights = 0

    @property
    def freedom(self) -> Floats:
        """Return the degrees of freedom of each group; single cells have those of their noise."""
        of_groups = np.maximum(self._num_steps, 2) * _FREE_PER_STEP
        return np.where(self._membership.is_single, np.inf, of_groups)

    @property
    def widening(self) -> Floats:
        """Return by window and group how many times its standard deviation is what independent
        cells would have; single cells lean on what all of them have.
        """
        spread = np.maximum(self._spread, self._steps)
        single = self._membership.is_single
        if single.any():
            common = spread[:, single].mean(axis=1, keepdims=True)
            spread[:, single] = (spread[:, single] + common) / 2
        return np.sqrt(np.maximum(spread, 1.0))

    def learn_spread(self, scores: Floats) -> None:
        """Take in the scores (windows, groups) of a night; 0 where nothing can be told."""
        if scores.any():
            self._num_nights += 1
            share = 1 / min(_FIRST_SPREAD + self._num_nights, _MEMORY_OF_SPREAD)
            far = np.minimum(scores**2, _CLIP**2 * np.maximum(self._spread, 1.0))
            self._spread += np.where(scores == 0, 0.0, share * (far - self._spread))

    def learn_steps(self, steps: Floats, weight: Floats) -> None:
        """Take in the steps of cells from the night before, with 1 / variance, 0 where it is not
        known.
        """
        total = self._membership.sums(weight)
        seen = (total > 0) & ~self._membership.is_single
        moved = self._membership.sums(weight * steps)[seen]
        known = self._steps[seen]
        farther = np.minimum(moved**2 / total[seen] / 2, _CLIP**2 * np.maximum(known, 1.0))
        self._num_steps[seen] += 1
        share = 1 / np.minimum(self._num_steps[seen] + 1, _MEMORY_OF_GROUPS)
        self._steps[seen] += share * (farther - known)

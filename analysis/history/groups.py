"""The groups of cells that one cause may hit: all, those that share a choice, and each alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from analysis.history.sums import Floats, Places, Truths


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cells that one cause may hit."""

    name: str  # as `all`, `model=vgg16`; empty of a cell alone
    cells: Places


def groups_of(axes: Sequence[Mapping[str, object]]) -> list[Group]:
    """Return all groups of cells with these axes; of groups with the same cells, the first."""
    num_cells = len(axes)
    found: dict[bytes, Group] = {}

    def add(name: str, cells: Sequence[int]) -> None:
        places = np.array(cells, dtype=np.intp)
        found.setdefault(places.tobytes(), Group(name=name, cells=places))

    if num_cells >= 2:
        add("all", range(num_cells))
    for axis in dict.fromkeys(name for of_cell in axes for name in of_cell):
        by_value: dict[str, list[int]] = {}
        for cell, of_cell in enumerate(axes):
            if axis in of_cell:
                by_value.setdefault(str(of_cell[axis]), []).append(cell)
        for value, cells in by_value.items():
            if len(cells) >= 2:
                add(f"{axis}={value}", cells)
    for cell in range(num_cells):
        add("", [cell])
    return list(found.values())


class Membership:
    """Which cells are in which group, for sums over all groups at once."""

    def __init__(self, groups: Sequence[Group], num_cells: int) -> None:
        sizes = [len(group.cells) for group in groups]
        rows = np.repeat(np.arange(len(groups)), sizes)
        cells = np.concatenate([group.cells for group in groups])
        shape = (len(groups), num_cells)
        self._matrix = sparse.csr_array((np.ones(len(cells)), (rows, cells)), shape)
        self.is_single: Truths = np.array(sizes) == 1
        self.others: Floats = 1 - np.array(sizes) / num_cells  # share of the cells

    def sums(self, of_cells: Floats) -> Floats:
        """Return the sum (groups,) of values (cells,)."""
        summed: Floats = self._matrix @ of_cells
        return summed

    def scores(self, weight: Floats, away: Floats, shared: float) -> Floats:
        """Return how many standard deviations each group (groups,) is away, of cells (cells,) with
        weight 1 / variance, 0 where it is not known; 0 of a group without any.

        `shared` is the share of the variance of the mean of all cells that they have in common: by
        so much a group is held against all others, too (generalized least squares).
        """
        own = self.sums(weight)
        part = shared * own / max(float(weight.sum()), np.finfo(float).tiny)
        left = self.sums(weight * away) - part * float(weight @ away)
        variance = own * (1 - part)
        found: Floats = np.where(own > 0, left, 0.0) / np.sqrt(np.where(own > 0, variance, 1.0))
        return found

"""Groups of cells that one cause may hit, and sums over cells, nights and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]
Truths: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cells that one cause may hit."""

    name: str  # as `all`, `model=vgg16`; empty of a cell alone
    cells: Places


def groups_of(axes: Sequence[Mapping[str, object]]) -> list[Group]:
    """Return all groups of cells with these axes; of groups with the same cells, the first."""
    num_cells = len(axes)
    groups: dict[bytes, Group] = {}

    def add(name: str, cells: Sequence[int]) -> None:
        places = np.array(cells, dtype=np.intp)
        groups.setdefault(places.tobytes(), Group(name=name, cells=places))

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
    return list(groups.values())


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
        scores: Floats = np.where(own > 0, left, 0.0) / np.sqrt(np.where(own > 0, variance, 1.0))
        return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The state of cells in some nights, each an array (cells,)."""

    num: Floats  # nights in which it was measured
    mean: Floats  # 0 where it never was
    time: Floats  # mean number of these nights
    about_time: Floats  # sum of squares of their numbers about that mean
    with_time: Floats  # sum of products of number and value, both about their means


class Sums:
    """Running sums of the values of cells, of the nights and of their products, each an array
    (nights + 1, cells).
    """

    def __init__(self, num_cells: int, num_nights: int) -> None:
        shape = (num_nights + 1, num_cells)
        self._num, self._value, self._time = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._squared_time, self._product = np.zeros(shape), np.zeros(shape)

    def append(self, night: int, values: Floats) -> None:
        """Add a night after those before it: values (cells,), NaN where it was not measured."""
        known = np.isfinite(values)
        filled = np.where(known, values, 0.0)
        for sums, terms in (
            (self._num, known),
            (self._value, filled),
            (self._time, known * night),
            (self._squared_time, known * night**2),
            (self._product, filled * night),
        ):
            sums[night + 1] = sums[night] + terms

    def between(self, begins: Places, end: int) -> Span:
        """Return what each cell was from its first night in `begins` up to before `end`."""
        cells = np.arange(len(begins))
        start = np.minimum(begins, end)
        num, value, time, squared_time, product = (
            sums[end] - sums[start, cells]
            for sums in (self._num, self._value, self._time, self._squared_time, self._product)
        )
        counted = np.maximum(num, 1.0)
        mean, mean_time = value / counted, time / counted
        return Span(
            num=num,
            mean=mean,
            time=mean_time,
            about_time=squared_time - time * mean_time,
            with_time=product - value * mean_time,
        )

"""Sums over nights by differences of running sums, of all cells at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]
Truths: TypeAlias = NDArray[np.bool_]


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

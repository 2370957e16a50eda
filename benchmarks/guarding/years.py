"""Simulated years: 50 trials of a machine, measured each night, with drift and known regressions.

A trial is one of 5 models x 5 ways of sharing variables x 2 numbers of GPUs. What is common to all
on a night is drift: 3 % slower over the year, a season of +-3 %, and a random walk. A regression
hits what one cause hits (a model, a way, a number of GPUs, all), or one trial alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import product

import numpy as np
from numpy.random import Generator

from analysis.guard.histories import HistoryCell, Night, Record
from analysis.guard.noise import Floats, Places, groups_of

NUM_NIGHTS = 365
FIRST = date(2026, 1, 1)
SIZES = (0.03, 0.04, 0.05, 0.06, 0.08, 0.10)
_FIRST_HIT, _LAST_HIT, _APART = 30, 358, 21  # nights
_PER_YEAR, _SEASON = -0.03, 0.03

AXES = tuple(
    {"model": model, "way": way, "num_gpus": num_gpus}
    for model, way, num_gpus in product(
        ("alexnet", "inception3", "resnet50", "resnet152", "vgg16"),
        ("ps_cpu", "ps_gpu", "nccl", "hierarchical_copy", "none"),
        (1, 8),
    )
)
GROUPS = tuple(group.cells for group in groups_of(AXES) if group.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The settings that all years of a row have in common."""

    name: str
    sizes: Sequence[float] = SIZES
    hits_one: bool = False  # each regression one trial, instead of a group
    most_cells: int = len(AXES)  # of a group that is hit
    num_repeats: int = 3  # processes of a trial in a night
    noise: float = 0.03  # between processes
    walk: float = 0.0005  # of the drift, from one night to the next
    common: float = 0.0  # noise of a night that all trials have
    bad_cells: float = 0.0  # share of values that are 20 % lower
    bad_nights: float = 0.0  # share of nights in which all are 10 % lower
    missing: float = 0.0  # share of values, and of whole nights
    heavy_tails: bool = False

    @property
    def groups(self) -> Sequence[Places]:
        """Return the cells of each group from which a regression is drawn."""
        if self.hits_one:
            return [np.array([cell]) for cell in range(len(AXES))]
        return [cells for cells in GROUPS if len(cells) <= self.most_cells]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A regression."""

    night: int  # the first with it
    size: float
    cells: Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Year:
    """Measured throughput, and the true changes behind it."""

    logs: Floats  # (cells, nights), NaN: not measured
    hits: Sequence[Hit]

    @property
    def record(self) -> Record:
        cells = []
        for axes in AXES:
            name = " ".join(map(str, axes.values()))
            cells.append(HistoryCell(trial_id=name, name=name, axes=axes))
        nights = [Night(day=FIRST + timedelta(days=night)) for night in range(NUM_NIGHTS)]
        shown = np.isfinite(self.logs).any(axis=0)
        return Record(
            machine="simulated box",
            host="simulated box",
            is_simulated=True,
            cells=tuple(cells),
            nights=tuple(night for night, is_shown in zip(nights, shown, strict=True) if is_shown),
            logs=self.logs[:, shown],
        )


def year(kind: Kind, random: Generator) -> Year:
    """Draw a year."""
    hits = _hits(kind, random)
    nights = np.arange(NUM_NIGHTS)
    drift = _PER_YEAR * nights / NUM_NIGHTS
    drift = drift + _SEASON * np.sin(2 * np.pi * (nights / NUM_NIGHTS + random.random()))
    drift += kind.walk * np.cumsum(random.normal(size=NUM_NIGHTS))
    drift += kind.common * random.normal(size=NUM_NIGHTS)
    drift += np.log(0.9) * (random.random(NUM_NIGHTS) < kind.bad_nights)
    shape = (len(AXES), NUM_NIGHTS)
    noise = random.normal(size=shape)
    if kind.heavy_tails:
        noise = random.standard_t(4, size=shape) / np.sqrt(2)
    logs = random.uniform(4, 8, size=(len(AXES), 1)) + drift
    logs = logs + kind.noise / np.sqrt(kind.num_repeats) * noise
    logs += np.log(0.8) * (random.random(shape) < kind.bad_cells)
    for hit in hits:
        logs[hit.cells, hit.night :] += np.log1p(-hit.size)
    if kind.missing:
        logs[random.random(shape) < kind.missing] = np.nan
        logs[:, random.random(NUM_NIGHTS) < kind.missing] = np.nan
    return Year(logs=logs, hits=hits)


def _hits(kind: Kind, random: Generator) -> list[Hit]:
    found = []
    for night, size in zip(_nights(len(kind.sizes), random), kind.sizes, strict=True):
        cells = kind.groups[random.integers(len(kind.groups))]
        found.append(Hit(night=int(night), size=size, cells=cells))
    return sorted(found, key=lambda hit: hit.night)


def _nights(num: int, random: Generator) -> Places:
    while num:
        nights = np.sort(random.integers(_FIRST_HIT, _LAST_HIT, num))
        if np.all(np.diff(nights) >= _APART):
            return random.permutation(nights)
    return np.array([], dtype=np.intp)

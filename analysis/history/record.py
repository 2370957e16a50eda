"""The throughput of trials by night, on one machine each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from analysis.history.sums import Floats, Places, Truths
from store.errors import StoreError


class NoHistoryError(StoreError):
    """Nothing that was chosen has a date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A trial whose history is guarded."""

    trial_id: str
    name: str  # by what tells it from the others
    label: str  # by itself: the same whatever others there are
    axes: Mapping[str, object]
    unit: str  # of its throughput, as images/s
    named_by: tuple[str, ...] = ()  # axes that its name tells


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """The sweeps that began on one day (UTC), on one machine and with one software."""

    day: date
    software: Mapping[str, str] = field(default_factory=dict)  # versions by name
    trials: Mapping[str, frozenset[str]] = field(default_factory=dict)  # ids, by the sweep's name
    accepted: str = ""  # the sweep that has the tag `accepted`

    @property
    def sweeps(self) -> tuple[str, ...]:
        return tuple(self.trials)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Cells of one machine that are measured equally often."""

    machine: str  # one line
    host: str  # as results have it
    is_simulated: bool
    cells: tuple[Cell, ...]
    nights: tuple[Night, ...]  # in which any of the cells was measured, in order
    logs: Floats  # (cells, nights): mean log throughput of the processes; NaN: not measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Histories:
    """The facts that all machines share."""

    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()


def short_machines(records: Sequence[Record]) -> Mapping[str, str]:
    """Return how a reader calls each machine: by its host, or by its whole line where a host has
    several, as before and after a GPU was built in.
    """
    machines = dict.fromkeys(record.machine for record in records)
    hosts = Counter(machine.partition(":")[0] for machine in machines)
    short = {machine: machine.partition(":")[0] for machine in machines}
    return {machine: host if hosts[host] == 1 else machine for machine, host in short.items()}


def made(
    machine: str,
    host: str,
    cells: Sequence[Cell],
    nights: Sequence[Night],
    logs: Floats,
    *,
    is_simulated: bool = False,
) -> list[Record]:
    """Split the cells of a machine by how often they are measured: what a small sweep measures each
    night and a large one each week are records of their own.
    """
    by_gap: dict[int, list[int]] = {}
    for place, gap in enumerate(_gaps(np.isfinite(logs))):
        by_gap.setdefault(int(gap), []).append(place)
    found = []
    for _, places in sorted(by_gap.items()):
        shown: Places = np.flatnonzero(np.isfinite(logs[places]).any(axis=0))
        found.append(
            Record(
                machine=machine,
                host=host,
                is_simulated=is_simulated,
                cells=tuple(cells[place] for place in places),
                nights=tuple(nights[night] for night in shown),
                logs=logs[places][:, shown],
            )
        )
    return found


def _gaps(known: Truths) -> Places:
    """Return the rounded binary logarithm of the nights from one measurement of a cell to the next:
    0 is each night, 3 each week.

    Its first measurements decide, so that a cell never moves to another record, where what was
    found of it would be found no more: fewer of them can find nothing.
    """
    gaps = np.zeros(len(known), dtype=np.intp)
    for cell, of_cell in enumerate(known):
        nights = np.flatnonzero(of_cell)[:_OF_A_RHYTHM]
        between = np.sort(np.diff(nights))
        if len(between):  # the lower median: a night that is missing is no rhythm
            gaps[cell] = np.round(np.log2(between[(len(between) - 1) // 2]))
    return gaps


_OF_A_RHYTHM = 9  # measurements; with fewer the noise of a cell is not known

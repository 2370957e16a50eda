"""Sorts what was measured into records: by machine, by trial and by night."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.history.record import Cell, Night, Record, made
from scalemark.records.measurement import unit_of
from scalemark.text.wording import as_typed

UNKNOWN = (None, "", "?")
"""Values of an axis that say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The processes of a trial in a night."""

    machine: str  # one line
    host: str  # as results have it
    trial_id: str
    label: str  # of the trial, as its record has it
    axes: Mapping[str, object]
    item: str
    night: Night
    throughputs: list[float]


def records(values: Iterable[Value], *, is_simulated: bool) -> list[Record]:
    """Return the records of each machine."""
    by_machine: dict[str, list[Value]] = defaultdict(list)
    for value in values:
        by_machine[value.machine].append(value)
    found = []
    for machine, of_machine in by_machine.items():
        found += _records(machine, of_machine, is_simulated=is_simulated)
    return found


def _records(machine: str, values: Sequence[Value], *, is_simulated: bool) -> list[Record]:
    trials = {(value.trial_id, value.item): value for value in values}
    numbers = {key: number for number, key in enumerate(trials)}
    nights = list({id(value.night): value.night for value in values}.values())
    nights.sort(key=lambda night: night.day)  # of one day, as they came
    places = {id(night): place for place, night in enumerate(nights)}
    logs = np.full((len(numbers), len(nights)), np.nan)
    for value in values:
        row = numbers[value.trial_id, value.item]
        logs[row, places[id(value.night)]] = np.mean(np.log(value.throughputs))
    return made(
        machine,
        values[0].host,
        _cells(list(trials.values())),
        nights,
        logs,
        is_simulated=is_simulated,
    )


def _cells(trials: Sequence[Value]) -> list[Cell]:
    """Name cells by what tells them apart."""
    texts: dict[str, set[str]] = defaultdict(set)
    for trial in trials:
        for name, value in trial.axes.items():
            texts[name].add(as_typed(value))
    varying = [name for name in texts if len(texts[name]) > 1 and name not in _FOLLOWING]
    items = {trial.item for trial in trials}
    cells: list[Cell] = []
    named: set[str] = set()
    for trial in trials:
        of_cell = trial.axes
        named_by = tuple(name for name in varying if name in of_cell)
        words = [f"{name}={as_typed(of_cell[name])}" for name in named_by]
        if len(items) > 1:
            words.append(trial.item)
        name = " ".join(words) or as_typed(of_cell.get("model", trial.trial_id[:8]))
        if name in named:  # they differ in what is no axis, as the number of steps
            name = f"{name} {trial.trial_id[:8]}"
        named.add(name)
        cells.append(
            Cell(
                trial_id=trial.trial_id,
                name=name,
                label=trial.label,
                axes=of_cell,
                unit=unit_of(trial.item),
                named_by=named_by,
            )
        )
    return cells


_FOLLOWING = ("variable_update", "local_parameter_device", "all_reduce")
"""Axes that `strategy` says."""

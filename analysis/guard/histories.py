"""Reads the throughput of trials by night: a record for each machine and each rhythm of measuring.

An attempt measured a trial on a machine, on a day, with some software.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np

from analysis.guard.noise import Floats, Places, Truths
from analysis.measured import described
from analysis.results import AXES, is_quotable
from analysis.selection import NothingFoundError, Selection
from scalemark.records.axes import PREFIX, is_free
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.text.wording import as_typed
from store.database import locate, open_for_reading, own_command, reading
from store.reading import queries
from store.reading.queries import Row
from store.reading.sweeps import BegunSweep, begun_sweeps

_UNKNOWN = (None, "", "?")  # values of an axis that say nothing
_FOLLOWING = ("variable_update", "local_parameter_device", "all_reduce")  # `strategy` names them
_OF_A_RHYTHM = 9  # measurements; with fewer the noise of a cell is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCell:
    """A trial whose history is guarded."""

    trial_id: str
    name: str  # the axes that distinguish it from the others
    axes: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """The sweeps that began on one day (UTC), on one machine and with one software."""

    day: date
    software: Mapping[str, str] = field(default_factory=dict)  # versions by name
    trials: Mapping[str, Collection[str]] = field(default_factory=dict)  # ids by sweep
    accepted: str = ""  # the sweep that has the tag `accepted`


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Cells of one machine that are measured equally often."""

    machine: str  # one line
    host: str
    is_simulated: bool
    cells: tuple[HistoryCell, ...]
    nights: tuple[Night, ...]  # in which any of the cells was measured, in order
    logs: Floats  # (cells, nights): mean log throughput of the processes; NaN: not measured


def histories(selection: Selection) -> list[Record]:
    """Return at least one record.

    Raises NothingFoundError for figures of others, and StoreError as `analysis.selection.load`.
    """
    if not selection.origin.is_ours:
        raise NothingFoundError(
            f"--origin {selection.origin}: figures that others measured have no history; wanted "
            "measured or simulated"
        )
    is_simulated = selection.origin is Origin.SIMULATED
    of_sweep = None
    with reading(open_for_reading(selection.db)) as connection:
        rows = queries.measured(connection, selection.filters)
        begun = begun_sweeps(connection)
        if selection.sweep is not None:
            of_sweep = queries.asked_for(connection, selection.sweep)
    attempts = []
    for attempt in rows:
        on_simulated = attempt["trial"]["device_kind"] == DeviceKind.SIMULATED_GPU
        if on_simulated is is_simulated and is_quotable(attempt):
            attempts.append(attempt)
    if of_sweep is not None:
        attempts = [attempt for attempt in attempts if attempt["trial_id"] in of_sweep.positions]
    if not attempts:
        asked = f" like {selection.asked}" if selection.asked else " in it"
        raise NothingFoundError(
            f"{locate(selection.db).name}: no usable number{asked}; see "
            f"{own_command(selection.db, 'list')}"
        )
    return records(attempts, begun, is_simulated=is_simulated)


def records(
    attempts: Sequence[Row], sweeps: Mapping[int, BegunSweep], *, is_simulated: bool
) -> list[Record]:
    """Sort attempts by machine, trial and night: a sweep's is the day on which it began."""
    by_machine: dict[str, list[Row]] = defaultdict(list)
    # sorting is stable: of one sweep they stay as they came
    for attempt in sorted(attempts, key=lambda row: sweeps[row["sweep_id"]].started_at):
        # the hardware without its driver, which is software to a history
        machine = attempt["machine"]
        parts = [f"{machine['num_cores']} cores {machine['cpu']}"]
        if machine["num_gpus"]:
            parts.append(f"{machine['num_gpus']} x {machine['gpu']}")
        if attempt["shares_host"]:
            parts.append("shared host")
        by_machine[f"{machine['host']}: {', '.join(parts)}"].append(attempt)
    made: list[Record] = []
    for line, of_machine in by_machine.items():
        record = _of_machine(line, of_machine, sweeps, is_simulated=is_simulated)
        made += split_by_rhythm(record)
    return made


def split_by_rhythm(record: Record) -> list[Record]:
    """Split the cells of a machine by how often they are measured.

    What a small sweep measures each night and a large one each week are records of their own.
    """
    by_gap: dict[int, list[int]] = defaultdict(list)
    for place, gap in enumerate(_gaps(np.isfinite(record.logs))):
        by_gap[int(gap)].append(place)
    parts = []
    for _, places in sorted(by_gap.items()):
        shown = np.flatnonzero(np.isfinite(record.logs[places]).any(axis=0))
        part = Record(
            machine=record.machine,
            host=record.host,
            is_simulated=record.is_simulated,
            cells=tuple(record.cells[place] for place in places),
            nights=tuple(record.nights[night] for night in shown),
            logs=record.logs[places][:, shown],
        )
        parts.append(part)
    return parts


def _gaps(known: Truths) -> Places:
    """Return the rounded binary logarithm of the nights from one measurement of a cell to the next:
    0 is each night, 3 each week.

    The first measurements decide, so that a cell never moves to another record, where what was
    found of it would be found no more.
    """
    gaps = np.zeros(len(known), dtype=np.intp)
    for cell, of_cell in enumerate(known):
        nights = np.flatnonzero(of_cell)[:_OF_A_RHYTHM]
        between = np.sort(np.diff(nights))
        if len(between):  # the lower median: a night that is missing is no rhythm
            gaps[cell] = np.round(np.log2(between[(len(between) - 1) // 2]))
    return gaps


def _of_machine(
    line: str, attempts: Sequence[Row], sweeps: Mapping[int, BegunSweep], *, is_simulated: bool
) -> Record:
    trials: dict[tuple[str, str], Row] = {}
    software: dict[object, dict[str, str]] = {}
    by_night: dict[tuple[date, str], list[Row]] = defaultdict(list)
    for attempt in attempts:
        trials.setdefault((attempt["trial_id"], attempt["item"]), attempt)
        where = attempt["environment_id"], attempt["machine_id"]
        if where not in software:
            environment, driver = attempt["environment"], attempt["machine"]["driver"]
            found = described([environment] if environment else [])
            if environment and environment["revision"]:
                found["commit of scalemark"] = environment["revision"][:12]
            if driver:
                found["driver"] = driver
            software[where] = found
        day = sweeps[attempt["sweep_id"]].started_at.date()
        by_night[day, repr(software[where])].append(attempt)
    numbers = {key: number for number, key in enumerate(trials)}
    logs = np.full((len(trials), len(by_night)), np.nan)
    nights = []
    # of one day they stay as they came
    for place, (day, versions) in enumerate(sorted(by_night, key=lambda key: key[0])):
        of_night = by_night[day, versions]
        values: dict[tuple[str, str], list[float]] = defaultdict(list)
        by_sweep: dict[str, set[str]] = defaultdict(set)
        accepted = ""
        for attempt in of_night:
            sweep = sweeps[attempt["sweep_id"]]
            values[attempt["trial_id"], attempt["item"]].append(math.log(attempt["throughput"]))
            by_sweep[sweep.name].add(attempt["trial_id"])
            if sweep.is_accepted and not accepted:
                accepted = sweep.name
        for key, of_trial in values.items():
            logs[numbers[key], place] = np.mean(of_trial)
        first = of_night[0]
        there = software[first["environment_id"], first["machine_id"]]
        nights.append(Night(day=day, software=there, trials=by_sweep, accepted=accepted))
    return Record(
        machine=line,
        host=attempts[0]["machine"]["host"],
        is_simulated=is_simulated,
        cells=tuple(_cells(list(trials.values()))),
        nights=tuple(nights),
        logs=logs,
    )


def _cells(attempts: Sequence[Row]) -> list[HistoryCell]:
    """Name the trials of these attempts by the axes that distinguish them."""
    every: list[dict[str, object]] = []
    texts: dict[str, set[str]] = defaultdict(set)
    for attempt in attempts:
        trial, axes = attempt["trial"], {}
        for name in (*AXES, *filter(is_free, trial)):
            if trial.get(name) not in _UNKNOWN:
                axis = name.removeprefix(PREFIX)
                axes[axis] = trial[name]
                texts[axis].add(as_typed(trial[name]))
        every.append(axes)
    varying = [axis for axis in texts if len(texts[axis]) > 1 and axis not in _FOLLOWING]
    has_items = len({attempt["item"] for attempt in attempts}) > 1
    cells: dict[str, HistoryCell] = {}
    for attempt, axes in zip(attempts, every, strict=True):
        trial_id, item = attempt["trial_id"], attempt["item"]
        words = [f"{axis}={as_typed(axes[axis])}" for axis in varying if axis in axes]
        if has_items:
            words.append(item)
        name = " ".join(words) or as_typed(axes.get("model", trial_id[:8]))
        if name in cells:  # they differ in what is no axis, as the number of steps
            name = f"{name} {trial_id[:8]}"
        cells[name] = HistoryCell(trial_id=trial_id, name=name, axes=axes)
    return list(cells.values())

"""Reads the records that a selection chooses."""

from __future__ import annotations

from analysis.history.attempts import clock_notes, of_attempts
from analysis.history.record import Histories, NoHistoryError
from analysis.history.tables import of_tables
from analysis.history.values import records
from analysis.results import Origin
from analysis.selection import NothingFoundError, Selection, load_every_night
from store.database import locate, open_for_reading
from store.own_commands import own_command
from store.reading.nights import processes


def histories(selection: Selection, *, across_machines: bool = False) -> Histories:
    """Read at least one record. Raises NoHistoryError where nothing has a date, and
    StoreError as `analysis.selection.load`."""
    if selection.origin is Origin.PUBLISHED:
        raise NoHistoryError(
            f"--origin {selection.origin}: published figures have no history; wanted measured, "
            "simulated or elsewhere"
        )
    if selection.origin is Origin.ELSEWHERE:
        found = records(of_tables(load_every_night(selection)), is_simulated=False)
        return Histories(records=tuple(found))
    is_simulated = selection.origin is Origin.SIMULATED
    read = processes(
        open_for_reading(selection.db),
        selection.filters,
        simulated=is_simulated,
        sweep=selection.sweep,
    )
    if not read.rows:
        asked = f" like {selection.asked}" if selection.asked else " in it"
        raise NothingFoundError(
            f"{locate(selection.db).name}: no number that may be quoted{asked}; see "
            f"{own_command(selection.db, 'store', 'list')}"
        )
    values = of_attempts(read, across_machines=across_machines)
    return Histories(
        records=tuple(records(values, is_simulated=is_simulated)),
        notes=tuple(clock_notes(read.sweeps.values())),
    )

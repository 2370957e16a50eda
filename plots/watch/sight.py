"""What there is to see of a database at one moment: the sweep that runs, and the tables of its
results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from analysis.pivot import lines, pivot
from analysis.results import Origin
from analysis.selection import NothingFoundError, OtherOriginError, Selection, load
from plots.tables.document import Document, document
from plots.tables.layout import Layout, laid_out
from store.database import open_for_reading
from store.live.snapshot import Snapshot
from store.live.status import snapshot_of
from store.reading import queries
from store.reading.changes import Changes
from store.sweeps.sweep_status import sweep_status

RUNNING = "running"
NOTHING_YET = "no attempt of it has ended yet"
NOTHING = Document(heading="", tables=(), notes=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """At one moment."""

    sweep: Snapshot | None = None  # that runs or has run; None: the whole database
    heading: str = ""  # what all tables have in common
    tables: tuple[Layout, ...] = ()
    notes: tuple[str, ...] = ()  # of all tables
    problem: str = ""  # why there is less than there could be

    @property
    def has_ended(self) -> bool:
        """Nothing more is to be expected."""
        return self.sweep is not None and self.sweep.state != RUNNING


class Watcher:
    """Looks again and again. Without a sweep of its own it takes the newest that runs, simulated or
    not, and stays with it.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._changes = Changes(selection.db)
        self._shown: tuple[str, str | None] | None = None  # what the tables are made of
        self._told = NOTHING

    def look(self) -> Sight:
        """Raises StoreError when the database cannot be read."""
        mark = self._changes.mark()
        sweep = self._sweep()
        if sweep is not None and self._selection.sweep is None:
            simulated = queries.is_simulated(open_for_reading(self._selection.db), sweep.sweep)
            origin = Origin.SIMULATED if simulated else Origin.MEASURED
            self._selection = replace(self._selection, sweep=sweep.sweep, origin=origin)
        shown = (mark, self._selection.sweep)
        if shown != self._shown:
            try:
                self._told = self._laid_out()
            except NothingFoundError as error:
                self._shown, self._told = None, NOTHING
                is_early = (
                    sweep is not None
                    and not self._selection.filters
                    and not isinstance(error, OtherOriginError)
                )
                return Sight(sweep=sweep, problem=NOTHING_YET if is_early else str(error))
            self._shown = shown
        told = self._told
        return Sight(sweep=sweep, heading=told.heading, tables=told.tables, notes=told.notes)

    def _laid_out(self) -> Document:
        results = load(self._selection)
        return document(pivot(results, lines(results)), laid_out(self._selection))

    def close(self) -> None:
        self._changes.close()

    def _sweep(self) -> Snapshot | None:
        name = self._selection.sweep
        found = [
            snapshot_of(status)
            for status in sweep_status(open_for_reading(self._selection.db), name)
        ]
        return next(
            (one for one in reversed(found) if name is not None or one.state == RUNNING), None
        )

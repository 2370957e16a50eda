"""The selected results, and on demand the details behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa

from analysis.results import Result
from analysis.selection import Selection, load
from analysis.text.titles import sweep_notes
from scalemark.records.measurement import StepSample
from scalemark.text.untrusted import masked
from store.database import open_existing, open_for_reading
from store.reading import listing, queries, references, sweeps
from store.reading.queries import Row


@dataclass(frozen=True, kw_only=True)
class Source:
    """Reads what is asked for once."""

    selection: Selection

    @cached_property
    def results(self) -> list[Result]:
        """At least one result; raises StoreError as `analysis.selection.load`."""
        return load(self.selection)

    @property
    def database(self) -> str:
        """The database as commands name it, without a password."""
        return masked(self.selection.db)

    @property
    def stored_in(self) -> str:
        """The place of the numbers; published figures come with scalemark and need no database."""
        if self.selection.origin.is_ours or open_existing(self.selection.db):
            return f"database {self.database}"
        return "published figures that come with scalemark"

    @cached_property
    def attempts(self) -> dict[int, Row]:
        """Details of measured results by attempt's number; published figures have none."""
        ids = sorted({attempt_id for result in self.results for attempt_id in result.attempt_ids})
        if not ids:
            return {}
        return {row["attempt"]: row for row in listing.attempt_details(self.engine, ids)}

    @property
    def notes(self) -> list[str]:
        """Notes of all numbers: which were chosen, and how many other sweeps than the chosen made,
        which asked for the same trials.
        """
        return [*self.selection.notes, *sweep_notes(self.results)]

    def steps(self, attempt_ids: Sequence[int]) -> dict[int, list[StepSample]]:
        """Return every call of the training function, warm-up included, by attempt."""
        return queries.steps(self.engine, attempt_ids) if attempt_ids else {}

    @cached_property
    def references(self) -> list[Row]:
        """All published figures that the database knows."""
        return references.known_references(open_existing(self.selection.db))

    @cached_property
    def machines(self) -> list[Row]:
        """The machines behind measured results."""
        keys = sorted({row["machine"] for row in self.attempts.values()})
        return sweeps.machines(self.engine, keys)

    @cached_property
    def sweeps(self) -> list[Row]:
        """The sweeps behind measured results, and the one that was selected."""
        names = {row["sweep"] for row in self.attempts.values()} | {self.selection.sweep or ""}
        return sweeps.sweeps(self.engine, sorted(names))

    @cached_property
    def engine(self) -> sa.Engine:
        return open_for_reading(self.selection.db)

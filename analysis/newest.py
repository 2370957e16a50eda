"""The newest sweep of a database, which commands without flags are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from analysis.options import select
from analysis.origin import Chosen, choose
from analysis.results import Origin, Result
from analysis.selection import NothingFoundError, Selection, load
from store.database import open_for_reading, reading
from store.schema import SweepRow

_MOST_LOOKED_AT = 20  # sweeps without a number, before all of them are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """A sweep with its trials that have a number."""

    name: str
    selection: Selection  # of it alone
    keys: frozenset[tuple[str, str]]  # environment and trial of each
    others: tuple[Origin, ...]  # of other numbers in the database

    def has(self, result: Result) -> bool:
        return (result.environment.key, result.trial_id) in self.keys

    @property
    def line(self) -> str:
        ways = ["--sweep", *(f"--origin {origin}" for origin in self.others)]
        choosing = f"{', '.join(ways)} or filters choose"
        return f"Newest sweep: {self.name} ({self.selection.origin}); {choosing}."


def selected(
    db: str,
    filters: Sequence[str] | None,
    sweep: str | None,
    origin: Origin | None,
    source: str | None,
) -> tuple[Selection, Newest | None]:
    """Return what the options choose, and the newest sweep where they choose nothing.

    Then everything of that sweep's origin is selected, so that what it repeats or completes counts.
    """
    if filters or origin or source or sweep is not None:
        return select(db, filters, sweep, origin, source), None
    of_all = choose(db, (), None, None)
    with reading(open_for_reading(db)) as connection:
        names = sa.select(SweepRow.name).order_by(SweepRow.id.desc()).limit(_MOST_LOOKED_AT)
        newest_first = list(connection.scalars(names))
    for name in newest_first:
        if found := _of_sweep(db, name, of_all):
            return replace(found.selection, sweep=None), found
    return of_all.selection, None


def _of_sweep(db: str, name: str, of_all: Chosen) -> Newest | None:
    """Return None where none of its trials has a number."""
    selection = choose(db, (), name, None).selection
    try:
        results = load(selection)
    except NothingFoundError:
        return None
    able = [one for one in results if one.throughput is not None]
    keys = frozenset((one.environment.key, one.trial_id) for one in able)
    origins = (of_all.selection.origin, *of_all.others)
    others = tuple(origin for origin in origins if origin is not selection.origin)
    return Newest(name=name, selection=selection, keys=keys, others=others) if able else None

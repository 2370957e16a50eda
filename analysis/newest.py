"""The newest sweep of a database, which commands without flags are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from analysis.options import select
from analysis.results import Result
from analysis.selection import ChosenOrigin, NothingFoundError, Selection, choose, load
from scalemark.records.references import Origin
from scalemark.text.wording import counted
from store.database import open_for_reading, reading
from store.reading.sweeps import NotRun, not_run
from store.schema import SweepRow

_MOST_LOOKED_AT = 20  # sweeps without a number, before all of them are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """A sweep with its trials that have a number; with all where none has one."""

    name: str
    selection: Selection  # of it alone
    keys: frozenset[tuple[str, str]]  # environment and trial of each
    has_numbers: bool
    others: tuple[Origin, ...]  # of other numbers in the database
    passed_over: int = 0  # newer ones, without a number

    def has(self, result: Result) -> bool:
        return (result.environment.key, result.trial_id) in self.keys

    @property
    def line(self) -> str:
        which = f"Newest sweep: {self.name} ({self.selection.origin})"
        if self.passed_over:
            which += f", but for {counted(self.passed_over, 'newer one')} without a number"
        ways = ["--sweep", *(f"--origin {origin}" for origin in self.others)]
        return f"{which}; {', '.join(ways)} or filters choose."


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
    failed: Newest | None = None
    for place, name in enumerate(newest_first):
        sweep_of = _of_sweep(db, name, of_all)
        if sweep_of and sweep_of.has_numbers:
            return replace(sweep_of.selection, sweep=None), replace(sweep_of, passed_over=place)
        failed = failed or sweep_of
    if failed is not None and len(newest_first) < _MOST_LOOKED_AT:
        return failed.selection, failed
    return of_all.selection, None


def what_is_left(selection: Selection, newest: Newest | None) -> NotRun | None:
    """Return what the sweep in question has not run; None where no sweep is asked about."""
    sweep = newest.name if newest else selection.sweep
    return None if sweep is None else not_run(open_for_reading(selection.db), sweep)


def _of_sweep(db: str, name: str, of_all: ChosenOrigin) -> Newest | None:
    """Return None where none of its trials has ended."""
    selection = choose(db, (), name, None).selection
    try:
        results = load(selection)
    except NothingFoundError:
        return None
    able = [result for result in results if result.throughput is not None]
    keys = frozenset((result.environment.key, result.trial_id) for result in able or results)
    origins = (of_all.selection.origin, *of_all.others)
    others = tuple(origin for origin in origins if origin is not selection.origin)
    return Newest(name=name, selection=selection, keys=keys, has_numbers=bool(able), others=others)

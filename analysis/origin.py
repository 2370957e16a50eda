"""Chooses results: where nobody names their origin, that of the newest sweep that matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.results import BaselineRule
from analysis.selection import Selection
from scalemark.records.origin import Origin
from store.database import open_for_reading
from store.reading import elsewhere
from store.reading.origins import newest_first, origin_note
from store.reading.queries import check_sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A selection, and the other origins that numbers like it have."""

    selection: Selection
    sweep: str = ""  # the newest that matches; empty where the origin was named
    others: tuple[Origin, ...] = ()  # none where the origin was named

    @property
    def note(self) -> str:
        """Say which origin was taken; empty where there is no other."""
        return origin_note(self.selection.origin, self.sweep, self.others)


def choose(
    db: str,
    filters: Sequence[str],
    sweep: str | None,
    origin: Origin | None,
    source: str | None = None,
    baseline: BaselineRule = BaselineRule.SAME,
) -> Chosen:
    """Raise StoreError when the database cannot be read, and as `Selection` does.

    A database that has tables of others alone is about these.
    """
    if origin is None and source is None:
        engine = open_for_reading(db)
        if sweep is None and elsewhere.is_all(engine):
            origin = Origin.ELSEWHERE
    selection = Selection(
        db=db,
        sweep=sweep,
        filters=tuple(filters),
        origin=origin or Origin.MEASURED,
        source=source,
        baseline=baseline,
    )
    if origin is not None or source is not None:
        return Chosen(selection=selection)
    if sweep is not None:
        check_sweep(engine, sweep)
    found = newest_first(engine, selection.filters, sweep=sweep)
    if not found:  # what reads beside the filters must see the database as it does without them
        there = newest_first(engine, (), sweep=sweep)
        taken = next(map(Origin, there), selection.origin)
        return Chosen(selection=replace(selection, origin=taken))
    newest, *others = map(Origin, found)
    if not filters and sweep is None and elsewhere.has_any(engine):
        others.append(Origin.ELSEWHERE)
    return Chosen(
        selection=replace(selection, origin=newest),
        sweep=next(iter(found.values())),
        others=tuple(others),
    )

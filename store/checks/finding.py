"""Holds what the checks of a database share: a finding, and reading in little memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from store.version import MAKE_AGAIN

MOST_OF_ONE_CHECK = 50
_ROWS_AT_ONCE = 1000
DAMAGED = f"move the file away with its -wal and -shm, then {MAKE_AGAIN}"
MADE_BY_HAND = (
    "no scalemark writes this: a damaged disk or another program did; take the row from a "
    "backup, or delete it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong in a database."""

    table: str  # or (file)
    row: str  # its primary key; empty when it is about the whole table
    what: str
    remedy: str


def made_by_hand(table: str, row: object, what: str) -> Finding:
    return Finding(table=table, row=str(row), what=what, remedy=MADE_BY_HAND)


def first_of(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first of one kind, and count the rest: there may be thousands."""
    iterator = iter(findings)
    last = None
    for last in islice(iterator, MOST_OF_ONE_CHECK):
        yield last
    num_more = sum(1 for _ in iterator)
    if last is not None and num_more:
        what = f"{num_more} more findings of this kind"
        yield Finding(table=last.table, row="", what=what, remedy=last.remedy)


def streamed(
    connection: sa.Connection,
    statement: sa.Select[*tuple[object, ...]],
    what: str,
    progress: Progress,
) -> Iterator[sa.RowMapping]:
    """Yield rows in the order of the database."""
    result = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(statement)
    for done, row in enumerate(result.mappings()):
        if done % _ROWS_AT_ONCE == 0:
            progress(what, done, 0)
        yield row

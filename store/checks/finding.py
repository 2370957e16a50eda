"""One thing that is wrong in a database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from store.version import MAKE_ANEW

MOST_OF_ONE_CHECK = 50
DAMAGED = f"move the file away with its -wal and -shm, then {MAKE_ANEW}"
MADE_BY_HAND = (
    "no scalemark writes this: a damaged disk or another program did; take the row from a "
    "backup, or delete it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is wrong, where, and what to do."""

    table: str  # or (file)
    row: str  # its primary key; empty when it is about the whole table
    what: str
    remedy: str


def first_of(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Not all, when there are thousands of one kind: the rest is counted."""
    iterator = iter(findings)
    last = None
    for last in islice(iterator, MOST_OF_ONE_CHECK):
        yield last
    if last is not None and (num_more := sum(1 for _ in iterator)):
        yield Finding(
            table=last.table,
            row="",
            what=f"{num_more} more findings of this kind",
            remedy=last.remedy,
        )

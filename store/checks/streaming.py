"""Reads results of any length in little memory, and tells how far it is."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from scalemark.cli.progress import Progress

_ROWS_AT_ONCE = 1000


def streamed(
    connection: sa.Connection,
    statement: sa.Select[*tuple[object, ...]],
    what: str,
    progress: Progress,
) -> Iterator[sa.RowMapping]:
    """Rows in the order of the database."""
    result = connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(statement)
    for done, row in enumerate(result.mappings()):
        if done % _ROWS_AT_ONCE == 0:
            progress(what, done, 0)
        yield row

"""Lets a filter name a free axis without its prefix: `zero>=1` for `axes.zero>=1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa

from scalemark.records.free_axes import bare_name, full_name
from store.database import reading
from store.errors import StoreError
from store.filters.filter_values import shortened
from store.filters.selection import KNOWN, nearest, unknown_name
from store.reading import elsewhere
from store.trial_rows import free_columns


def full_names(engine: sa.Engine, filters: Sequence[str]) -> list[str]:
    """Return as `with_prefixes` does, without a look at the database where none is needed.

    Where the only numbers were measured elsewhere, the StoreError says so.
    """
    if not any(unknown_name(text) for text in filters):
        return list(filters)
    try:
        with reading(engine) as connection:
            return with_prefixes(connection, filters)
    except StoreError:
        if hint := elsewhere.shown_by(engine):
            raise StoreError(f"{Path(engine.url.database or '').name}: {hint}") from None
        raise


def with_prefixes(connection: sa.Connection, filters: Sequence[str]) -> list[str]:
    """Return the filters with the full names of the database's free axes.

    A name of ours is never a free axis. Raises StoreError for a name that is neither, with the
    nearest one; what is no filter at all is left as it is.
    """
    unknown = {name for text in filters if (name := unknown_name(text))}
    if not unknown:
        return list(filters)
    columns = free_columns(connection)
    free = set(map(bare_name, columns))
    for name in sorted(unknown - free):
        choices = [*KNOWN, *sorted(free)]
        raise StoreError(f"{shortened(name)}: nothing to filter by; {nearest(name[:100], choices)}")
    found = []
    for text in filters:
        name = unknown_name(text)
        if name is not None:
            text = full_name(name, columns) + text.lstrip().removeprefix(name)
        found.append(text)
    return found

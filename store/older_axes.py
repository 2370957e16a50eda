"""Reads a database that was made before an axis was defined: all its trials have the default."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.sql.visitors import replacement_traverse

from scalemark.records.trial import AXES
from store.schema import TrialRow
from store.trial_rows import missing_columns


def fill_in_defaults(engine: sa.Engine) -> sa.Engine:
    """Make every statement of this engine find the default where `trials` has no such column."""
    with engine.connect() as connection:
        missing = missing_columns(connection)
    if missing:
        event.listen(engine, "begin", _look)
        event.listen(engine, "before_execute", _fill_in, retval=True)
    return engine


def _look(connection: sa.Connection) -> None:
    """Look again in every transaction: another program may have added the column meanwhile."""
    connection.info[_MISSING] = set()
    connection.info[_MISSING] = missing_columns(connection)


def _fill_in(
    connection: sa.Connection, statement: Any, several: Any, values: Any, _options: Any
) -> tuple[Any, Any, Any]:
    missing = connection.info.get(_MISSING)
    if not missing or not isinstance(statement, sa.Select):
        return statement, several, values

    def replaced(element: Any, **_: Any) -> Any:
        if not isinstance(element, sa.Column) or element.name not in missing:
            return None
        if element.table.name != TrialRow.__tablename__:
            return None
        return sa.literal(AXES[element.name].default).label(element.name)

    return replacement_traverse(statement, {}, replaced), several, values


_MISSING = "scalemark_missing_axes"

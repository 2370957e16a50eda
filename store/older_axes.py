"""Reads a database that was made before an axis was defined: all its trials have the default."""

from __future__ import annotations

from collections.abc import Collection
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
        event.listen(engine, "before_execute", _Filling(missing), retval=True)
    return engine


class _Filling:
    """What SQLAlchemy calls with each statement."""

    def __init__(self, missing: Collection[str]) -> None:
        self._defaults = {name: sa.literal(AXES[name].default).label(name) for name in missing}

    def __call__(
        self, _: sa.Connection, statement: Any, several: Any, values: Any, _options: Any
    ) -> tuple[Any, Any, Any]:
        if isinstance(statement, sa.Select):
            statement = replacement_traverse(statement, {}, self._replaced)
        return statement, several, values

    def _replaced(self, element: Any, **_: Any) -> Any:
        if isinstance(element, sa.Column) and element.table.name == TrialRow.__tablename__:
            return self._defaults.get(element.name)
        return None

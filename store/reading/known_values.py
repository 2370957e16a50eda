"""Names the values that a database has, where a filter asks for one that it has not."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import sqlalchemy as sa

from scalemark.records.free_axes import is_free
from scalemark.text.untrusted import visible
from store.database import reading
from store.filters.selection import NOT_AXES, nearest, parsed
from store.reading.queries import selected
from store.schema import TrialRow
from store.trial_rows import free_columns

_MOST_NAMED = 8
_AXES = {
    column.name: column
    for column in TrialRow.__table__.columns
    if column.name not in NOT_AXES and isinstance(column.type, sa.String | sa.Integer)
}


def hint(engine: sa.Engine, filters: Sequence[str]) -> str:
    """Name the nearest value, or all values, of the first axis that no trial has as asked, and the
    nearest free axis where none has this name. Empty where each filter alone selects something.
    """
    with reading(engine) as connection:
        free = list(free_columns(connection))
    for wanted in parsed(filters):
        if is_free(wanted.name):
            if wanted.name not in free:
                others = nearest(wanted.name, free) if free else "nor any axis like it"
                end = " " if others.endswith("?") else "; "
                return f"no trial there has {wanted.name}; {others}{end}"
            if wanted.value.startswith(("'", '"')) or "," in wanted.value:
                return r"a value is written without quotes, a comma within it as \,; "
        if wanted.name not in _AXES or wanted.operator != "=" or "," in wanted.value:
            continue
        rows = selected(engine, sa.select(_AXES[wanted.name].label("value")).distinct())
        known = list(map(str, sorted(row["value"] for row in rows if row["value"])))
        if not known or wanted.value in known:
            continue
        near: list[str] = []
        if isinstance(_AXES[wanted.name].type, sa.String):
            near = difflib.get_close_matches(wanted.value[:100], known, n=3)
        if near:
            return f"did you mean {wanted.name}={', '.join(map(visible, near))}? "
        more = ", ..." if len(known) > _MOST_NAMED else ""
        return f"{wanted.name} is {', '.join(map(visible, known[:_MOST_NAMED]))}{more} there; "
    return ""

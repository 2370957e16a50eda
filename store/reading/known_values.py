"""Says which values a database has, where a filter asks for one that it has not."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import sqlalchemy as sa

from scalemark.records.free_axes import is_free
from scalemark.text.untrusted import visible
from store.database import reading
from store.filters.filter_values import Filter
from store.filters.selection import NOT_AXES, attempt_ids, nearest, parsed
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
    """Name the nearest value of the first axis that is never as asked, or those that there are,
    and of a free axis that no trial has the nearest name; how a comma within a value is written,
    where one has it, and that quotes are not. Empty where each filter alone finds something.
    """
    with reading(engine) as connection:
        free = list(free_columns(connection))
    for one in parsed(filters):
        if is_free(one.name) and (found := _of_free_axis(engine, one, free)):
            return found
        if one.name not in _AXES or one.operator != "=" or "," in one.value:
            continue
        rows = selected(engine, sa.select(_AXES[one.name].label("value")).distinct())
        values = sorted(row["value"] for row in rows if row["value"] not in (None, ""))
        known = list(map(str, values))
        if not known or one.value in known:
            continue
        is_text = isinstance(_AXES[one.name].type, sa.String)
        near = difflib.get_close_matches(one.value[:100], known, n=3) if is_text else []
        if near:
            return f"did you mean {one.name}={', '.join(map(visible, near))}? "
        more = ", ..." if len(known) > _MOST_NAMED else ""
        return f"{one.name} is {', '.join(map(visible, known[:_MOST_NAMED]))}{more} there; "
    return ""


def _of_free_axis(engine: sa.Engine, one: Filter, known: Sequence[str]) -> str:
    if one.name not in known:
        others = nearest(one.name, known) if known else "nor any axis like it"
        end = " " if others.endswith("?") else "; "
        return f"no trial there has {one.name}; {others}{end}"
    bare = _unquoted(one.value)
    escaped = bare.replace(",", r"\,")
    whole = f"{one.name}={escaped}"
    differs = one.operator == "=" and escaped != one.value
    if not differs or not selected(engine, attempt_ids([whole]).limit(1)):
        return ""
    if "," in bare:
        return f"a comma within a value is written as '{visible(whole)}'; "
    return f"a value is written without quotes, as '{visible(whole)}'; "


def _unquoted(value: str) -> str:
    """Return a value without the quotes that a sweep takes around one, as in `+env.NAME='a,b'`."""
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value

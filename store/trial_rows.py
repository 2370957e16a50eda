"""Writes the table `trials`, with a column for every axis: a new axis needs no migration.

A defined axis that the table of an older database lacks is added with its default, and a free axis
as a column that may be null. What a column of a free axis holds may become wider: whole numbers
become numbers, and anything becomes text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import sqlalchemy as sa

from scalemark.records.axes import AxisValue, name_in_records
from scalemark.records.trial import AXES, TrialSpec
from store.rows import in_chunks, insert_all
from store.schema import Flag, Real, TrialRow, Whole, is_lacked
from store.version import drop_views, replace_views

_TRIALS = cast(sa.Table, TrialRow.__table__)
_KINDS: Mapping[type[AxisValue], sa.types.TypeEngine[Any]] = {
    bool: Flag(),
    int: Whole(),
    float: Real(),
    str: sa.Text(),
}


def insert_trials(connection: sa.Connection, specs: Mapping[str, TrialSpec]) -> None:
    """Insert those of these trials, by their ids, that are not there yet.

    Of one that is there `compare` may be another now, which is no part of its identity.
    """
    new, compared_otherwise = dict(specs), []
    for ids in in_chunks(list(specs)):
        known = sa.select(TrialRow.id, _TRIALS.c["compare"]).where(TrialRow.id.in_(ids))
        for trial_id, compare in connection.execute(known):
            spec = new.pop(trial_id)
            if spec.compare != (compare or ""):
                compared_otherwise.append(spec)
    for spec in compared_otherwise:
        row = sa.update(TrialRow).where(TrialRow.id == spec.trial_id)
        changed = {"strategy": spec.strategy, "spec": spec.to_json()}
        connection.execute(row.values(compare=spec.axes["compare"], **changed))
    _make_room_for(connection, new.values())
    insert_all(connection, TrialRow, [_values(id_, spec) for id_, spec in new.items()])
    _fill(connection, new)


def free_columns(connection: sa.Connection) -> dict[str, sa.Column[Any]]:
    """Return the columns of free axes by their names, typed as the database has them."""
    columns = {}
    for name, kind in _columns(connection).items():
        if name not in _TRIALS.columns:
            columns[name] = sa.Column(name, kind, nullable=True)
            columns[name].table = _TRIALS  # so that it selects from `trials`
    return columns


def free_values(connection: sa.Connection) -> list[sa.Label[Any]]:
    """Return the free axes with their values in the specs: a column may be of a wider type."""
    values = []
    for name in free_columns(connection):
        own = name_in_records(name)  # as in the spec
        if connection.dialect.name == "sqlite":
            value: sa.ColumnElement[Any] = TrialRow.spec.op("->")(f'$.free."{own}"')
        else:
            value = sa.cast(TrialRow.spec, sa.JSON)["free"][own]
        values.append(sa.type_coerce(value, sa.JSON).label(name))
    return values


def free_value(value: AxisValue | None, column_type: sa.types.TypeEngine[Any]) -> AxisValue | None:
    """Return the value as a column of a free axis holds it."""
    if value is None or _kind_of(column_type) is not str or isinstance(value, str):
        return value
    return json.dumps(value)


def missing_columns(connection: sa.Connection) -> set[str]:
    """Return the names of axes that were defined after this table was made."""
    return set(AXES) - set(_columns(connection))


def add_missing_columns(connection: sa.Connection) -> None:
    """Give the table a column for every defined axis, and the views theirs, inside the caller's
    transaction.
    """
    _make_room_for(connection, ())


_OF_SQLITE: Mapping[str, sa.types.TypeEngine[Any]] = {
    "INT": Flag(),
    "INTEGER": Whole(),
    "REAL": Real(),
}


def _columns(connection: sa.Connection) -> dict[str, Any]:
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"PRAGMA table_info({_TRIALS.name})")
        return {row[1]: _OF_SQLITE.get(row[2], sa.Text()) for row in rows}
    return {
        column["name"]: column["type"]
        for column in sa.inspect(connection).get_columns(_TRIALS.name)
    }


def _make_room_for(connection: sa.Connection, specs: Iterable[TrialSpec]) -> None:
    known = _columns(connection)
    new: dict[str, sa.types.TypeEngine[Any]] = {}
    wider: dict[str, sa.types.TypeEngine[Any]] = {}
    for name, kinds in _kinds_of_free_axes(specs).items():
        if name not in known:
            new[name] = _KINDS[_widest(kinds)]
            continue
        widest = _widest({*kinds, _kind_of(known[name])})
        if widest != _kind_of(known[name]):
            wider[name] = _KINDS[widest]
    missing = [axis for axis in AXES.values() if axis.name not in known]
    for axis in missing:
        default = sa.literal(axis.default).compile(
            dialect=connection.dialect, compile_kwargs={"literal_binds": True}
        )
        is_null = "" if is_lacked(axis) else "NOT NULL "
        _alter(connection, "ADD", axis.name, _KINDS[axis.type], f"{is_null}DEFAULT {default}")
    for name, kind in new.items():
        _alter(connection, "ADD", name, kind)
    if wider:
        drop_views(connection)
        for name, kind in wider.items():
            _alter(connection, "DROP", name)
            _alter(connection, "ADD", name, kind)
        replace_views(connection)
        for name in wider:
            _fill(connection, _trials_with_free_axes(connection), only=name)
    elif missing or new:
        replace_views(connection)


def _kinds_of_free_axes(specs: Iterable[TrialSpec]) -> dict[str, set[type[AxisValue]]]:
    kinds: dict[str, set[type[AxisValue]]] = {}
    for spec in specs:
        for name, value in spec.free:
            kinds.setdefault(name, set()).add(type(value))
    return kinds


def _kind_of(column_type: Any) -> type[AxisValue]:
    if isinstance(column_type, sa.Boolean):
        return bool
    if isinstance(column_type, sa.Integer):
        return int
    return float if isinstance(column_type, sa.Float) else str


def _widest(kinds: set[type[AxisValue]]) -> type[AxisValue]:
    if len(kinds) == 1:
        (kind,) = kinds
        return kind
    return float if kinds == {int, float} else str


def _alter(
    connection: sa.Connection, what: str, name: str, kind: Any = None, more: str = ""
) -> None:
    dialect = connection.dialect
    of_kind = "" if kind is None else kind.compile(dialect=dialect)
    # a sweep may have called an axis `order`
    quoted = dialect.identifier_preparer.quote_identifier(name)
    connection.exec_driver_sql(
        f"ALTER TABLE {_TRIALS.name} {what} COLUMN {quoted} {of_kind} {more}"
    )


def _trials_with_free_axes(connection: sa.Connection) -> dict[str, TrialSpec]:
    statement = sa.select(TrialRow.id, TrialRow.spec).where(TrialRow.spec.contains('"free":'))
    return {row.id: TrialSpec.from_json(row.spec) for row in connection.execute(statement)}


def _fill(connection: sa.Connection, specs: Mapping[str, TrialSpec], only: str = "") -> None:
    """Write the values of free axes, or of one, into the rows of these trials."""
    values: dict[str, list[tuple[str, AxisValue]]] = {}
    for id_, spec in specs.items():
        for name, value in spec.free:
            if only in ("", name):
                values.setdefault(name, []).append((id_, value))
    columns = free_columns(connection) if values else {}
    for name, of_trials in values.items():
        kind = columns[name].type
        rows = [{"of_trial": id_, "value": free_value(value, kind)} for id_, value in of_trials]
        table = sa.table(_TRIALS.name, sa.column("id"), sa.column(name, kind))
        one_row = sa.update(table).where(table.c.id == sa.bindparam("of_trial"))
        connection.execute(one_row.values({name: sa.bindparam("value")}), rows)


def _values(trial_id: str, spec: TrialSpec) -> dict[str, Any]:
    """Return the columns of `TrialRow`."""
    axes = spec.axes
    own = {"id": trial_id, "curve": spec.curve, "strategy": spec.strategy, "spec": spec.to_json()}
    return {name: axes[name] for name in AXES} | own

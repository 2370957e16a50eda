"""The rows of the table `trials`, and a column for every axis in it: a new axis needs no migration.

A defined axis that the table of an older database lacks is added with its default, and a free axis
as a column that may be null. What a column of a free axis holds may become wider: whole numbers
become numbers, and anything becomes text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

import sqlalchemy as sa

from scalemark.records.axes import AxisValue
from scalemark.records.strategies import strategy_name
from scalemark.records.trial import AXES, TrialSpec
from store.rows import insert_all
from store.schema import TrialRow
from store.sweeps.repeat_states import in_chunks
from store.views import create_views_with_axes, drop_views_with_axes

_TRIALS = cast(sa.Table, TrialRow.__table__)
_KINDS: Mapping[type[AxisValue], sa.types.TypeEngine[Any]] = {
    bool: sa.Boolean(),
    int: sa.BigInteger(),
    float: sa.Double(),
    str: sa.Text(),
}


def insert_trials(connection: sa.Connection, specs: Mapping[str, TrialSpec]) -> None:
    """Insert those of these trials, by their ids, that are not there yet."""
    known = {
        id_
        for ids in in_chunks(list(specs))
        for id_ in connection.scalars(sa.select(TrialRow.id).where(TrialRow.id.in_(ids)))
    }
    new = {id_: spec for id_, spec in specs.items() if id_ not in known}
    _make_room_for(connection, new.values())
    insert_all(connection, TrialRow, [_values(id_, spec) for id_, spec in new.items()])
    _fill(connection, new)


def free_columns(connection: sa.Connection) -> dict[str, sa.Column[Any]]:
    """Return the columns of free axes by their names, typed as the database has them."""
    known = _TRIALS.columns.keys()
    return {
        name: _free_column(name, kind)
        for name, kind in _columns(connection).items()
        if name not in known
    }


def missing_columns(connection: sa.Connection) -> set[str]:
    """Return the names of axes that were defined after this table was made."""
    return set(AXES) - set(_columns(connection))


def add_missing_columns(connection: sa.Connection) -> None:
    """Give the table a column for every defined axis, inside the caller's transaction."""
    _make_room_for(connection, ())


def _columns(connection: sa.Connection) -> dict[str, Any]:
    return {one["name"]: one["type"] for one in sa.inspect(connection).get_columns(_TRIALS.name)}


def _free_column(name: str, kind: Any) -> sa.Column[Any]:
    """A column that selects from `trials`, of which the table here knows nothing."""
    column: sa.Column[Any] = sa.Column(name, kind, nullable=True)
    column.table = _TRIALS
    return column


def _make_room_for(connection: sa.Connection, specs: Iterable[TrialSpec]) -> None:
    found = _columns(connection)
    wanted = _wanted(specs, found)
    missing = [axis for axis in AXES.values() if axis.name not in found]
    if not missing and not wanted:
        return
    drop_views_with_axes(connection)  # PostgreSQL keeps columns that a view names
    for axis in missing:
        default = sa.literal(axis.default).compile(
            dialect=connection.dialect, compile_kwargs={"literal_binds": True}
        )
        _alter(connection, "ADD", axis.name, _KINDS[axis.type], f"NOT NULL DEFAULT {default}")
    for name, kind in wanted.items():
        if name in found:
            _alter(connection, "DROP", name)
        _alter(connection, "ADD", name, kind)
        if name in found:
            _fill(connection, _trials_with_free_axes(connection), only=name)
    create_views_with_axes(connection)


def _wanted(
    specs: Iterable[TrialSpec], found: Mapping[str, Any]
) -> dict[str, sa.types.TypeEngine[Any]]:
    """Return the columns of free axes that are to be made, or made wider."""
    kinds: dict[str, set[type[AxisValue]]] = {}
    for spec in specs:
        for name, value in spec.free:
            kinds.setdefault(name, set()).add(type(value))
    wanted = {}
    for name, seen in kinds.items():
        before = {_kind_of(found[name])} if name in found else set()
        widest = _widest(seen | before)
        if {widest} != before:
            wanted[name] = _KINDS[widest]
    return wanted


def _kind_of(column_type: Any) -> type[AxisValue]:
    for kind, of_database in ((bool, sa.Boolean), (int, sa.Integer), (float, sa.Float)):
        if isinstance(column_type, of_database):
            return kind
    return str


def _widest(kinds: set[type[AxisValue]]) -> type[AxisValue]:
    if len(kinds) == 1:
        (kind,) = kinds
        return kind
    return float if kinds == {int, float} else str


def _alter(
    connection: sa.Connection, what: str, name: str, kind: Any = None, more: str = ""
) -> None:
    """Names are checked where axes are made: they need no quotes, and have them all the same."""
    dialect = connection.dialect
    told = "" if kind is None else kind.compile(dialect=dialect)
    quoted = dialect.identifier_preparer.quote_identifier(name)
    connection.exec_driver_sql(f"ALTER TABLE {_TRIALS.name} {what} COLUMN {quoted} {told} {more}")


def _trials_with_free_axes(connection: sa.Connection) -> dict[str, TrialSpec]:
    statement = sa.select(TrialRow.id, TrialRow.spec).where(TrialRow.spec.contains('"free":'))
    return {row.id: TrialSpec.from_json(row.spec) for row in connection.execute(statement)}


def _fill(connection: sa.Connection, specs: Mapping[str, TrialSpec], only: str = "") -> None:
    """Write the values of free axes into the rows of these trials."""
    values: dict[str, list[dict[str, Any]]] = {}
    for id_, spec in specs.items():
        for name, value in spec.free:
            if only in ("", name):
                values.setdefault(name, []).append({"of_trial": id_, "value": value})
    columns = free_columns(connection) if values else {}
    for name, rows in values.items():
        if _kind_of(columns[name].type) is str:
            rows = [one | {"value": _text(one["value"])} for one in rows]
        table = sa.table(_TRIALS.name, sa.column("id"), sa.column(name, columns[name].type))
        one_row = sa.update(table).where(table.c.id == sa.bindparam("of_trial"))
        connection.execute(one_row.values({name: sa.bindparam("value")}), rows)


def _text(value: AxisValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _values(trial_id: str, spec: TrialSpec) -> dict[str, Any]:
    """Return the columns of `TrialRow`."""
    return {
        **{name: getattr(spec, name) for name in AXES},
        "id": trial_id,
        "curve": spec.curve,
        "strategy": strategy_name(
            spec.variable_update, spec.local_parameter_device, spec.all_reduce
        ),
        "spec": spec.to_json(),
    }

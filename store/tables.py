"""Creates the tables and views of a new database, checks the version of one that is there, and
gives `trials` a column for every axis: a new axis needs no migration.

Views are plain SQL that any reader of the database can run, for SQLite and for PostgreSQL. Their
column `origin` keeps numbers of simulated GPUs apart, which are computed and not measured.

A defined axis that the table of an older database lacks is added with its default, and a free axis
as a column that may be null. What a column of a free axis holds may become wider: whole numbers
become numbers, and anything becomes text.
"""

import json
import shlex
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, cast

import sqlalchemy as sa

from scalemark.host.own_code import typed
from scalemark.records.axes import AxisValue, name_in_records
from scalemark.records.references import published
from scalemark.records.trial import AXES, RETIRED, TrialSpec
from scalemark.text.wording import as_typed
from store.errors import DamagedError, StoreError
from store.rows import add_references, in_chunks, insert_all
from store.schema import (
    AttemptRow,
    Base,
    Flag,
    InfoRow,
    MeasurementRow,
    Real,
    SweepRow,
    TrialRow,
    Whole,
    is_lacked,
    sql_default,
)

SCHEMA = "6"  # version of the tables, in `database_info`: to be raised with every change of them
_READ = ("5", SCHEMA)  # 5 has a table more, `events`

_OUR_TABLES = frozenset({"sweeps", "trials", "attempts"})

VERSION_QUERY = "SELECT value FROM database_info WHERE name = 'schema'"

# what to do, in every message about damage
MAKE_AGAIN = f"restore a backup, or make it again with `{typed('db')} rebuild RUNS`"
IF_DAMAGED = f"it is damaged: move it away with its -wal and -shm, then {MAKE_AGAIN}"


def create(connection: sa.Connection) -> None:
    """Create tables, views and published figures, inside the caller's transaction."""
    Base.metadata.create_all(connection, checkfirst=False)
    replace_views(connection)
    _replace(connection, "step_samples", _STEP_SAMPLES[connection.dialect.name])
    version = {"name": "schema", "value": SCHEMA}
    insert_all(connection, InfoRow, [version, {"name": "id", "value": uuid.uuid4().hex}])
    add_references(connection, published())


def check_is_ours(name: str, tables: set[str]) -> None:
    """Raise StoreError where another program, or a scalemark without versions, made it."""
    has_info = InfoRow.__tablename__ in tables
    if len(tables & _OUR_TABLES) < (1 if has_info else 2):
        first = ", ".join(sorted(tables)[:3])
        raise StoreError(
            f"{name}: a database of another program (it has {first}); name another file"
        )
    if not has_info:
        check_version(name, None, tables)


def check_version(name: str, schema: object, tables: set[str]) -> None:
    """Raise StoreError for another version, and DamagedError where a table is missing."""
    if schema in _READ:
        if missing := sorted(Base.metadata.tables.keys() - tables):
            raise DamagedError(f"{name}: the table {missing[0]} is missing; {IF_DAMAGED}")
        return
    if isinstance(schema, str) and schema.isdecimal() and int(schema) > int(SCHEMA):
        raise StoreError(
            f"{name}: written by a newer scalemark (schema {schema}, this one knows {SCHEMA}); "
            "upgrade scalemark"
        )
    version = "no version of a schema" if schema is None else f"schema {str(schema)[:40]!r}"
    raise StoreError(
        f"{name}: it has {version}, this scalemark reads {SCHEMA}: it is damaged, or of a version "
        f"that was never released; move it away, then {MAKE_AGAIN}"
    )


_ORIGIN = (
    "CASE WHEN trials.device_kind = 'simulated_gpu' THEN 'simulated' ELSE 'measured' END AS origin"
)
# what a table quotes: `analysis.results.is_quotable`
_IS_QUOTABLE = """attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
          AND measurements.throughput > 0
          AND coalesce(measurements.verdict, '') <> 'invalid'"""

_RUN_DIR = """CASE WHEN substr(attempts.run_dir, 1, 1) = '/' THEN attempts.run_dir
            ELSE sweeps.run_dir || '/' || attempts.run_dir END AS run_dir"""

_ATTEMPTS = """FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
JOIN machines ON machines.id = attempts.machine_id"""

# In all views the axes stand last, in the order of the table: a column for a new axis comes behind
# them, so that PostgreSQL can replace a view and keep the rights on it and the views on top of it.
_THROUGHPUT = """
SELECT {first}, measurements.throughput, {origin}, {others},
       attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       machines.gpu, environments.software_key, attempts.shares_host, attempts.repeat,
       measurements.item, measurements.throughput_low,
       measurements.throughput_high, measurements.median_step_s, measurements.p90_step_s,
       measurements.jitter_s, measurements.data_wait_share, measurements.cpu_s,
       measurements.peak_host_memory_bytes, measurements.peak_device_memory_bytes,
       measurements.mfu, measurements.peak_flops_per_s, measurements.variable_bytes,
       measurements.optimizer_state_bytes, measurements.verdict, attempts.started_at,
       {axes}
{attempts}
JOIN measurements ON measurements.attempt_id = attempts.id
LEFT JOIN environments ON environments.id = attempts.environment_id
WHERE attempts.outcome = 'completed' AND attempts.deleted_at IS NULL
"""

_FAILURES = """
SELECT attempts.id AS attempt_id, sweeps.name AS sweep, trials.id AS trial_id, machines.host,
       attempts.repeat, attempts.attempt, attempts.outcome, attempts.message, attempts.exit_code,
       attempts.started_at, attempts.duration_s, {run_dir},
       {first}, {others}, trials.item, {axes}
{attempts}
WHERE attempts.outcome <> 'completed' AND attempts.deleted_at IS NULL
"""

# The geometric mean, as `scalemark.stats.welch.typical`; a single number as it is.
_TYPICAL = """CASE WHEN count(*) = 1 THEN max(measurements.throughput)
                ELSE exp(avg(ln(measurements.throughput))) END"""

# One GPU is on one host: a curve has one
# such trial.
_ON_ONE_GPU = """(
      SELECT {typical}
      FROM trials AS one
      JOIN attempts ON attempts.trial_id = one.id
      JOIN measurements ON measurements.attempt_id = attempts.id
      JOIN environments ON environments.id = attempts.environment_id
      WHERE one.curve = grouped.curve AND one.num_gpus = 1 AND one.hosts = 1
            AND attempts.machine_id = grouped.machine_id
            AND environments.software_key = grouped.software_key
            AND attempts.shares_host = grouped.shares_host AND measurements.item = grouped.item
            AND {is_quotable}
    )"""

# The axes in GROUP BY let conditions on them reach the tables' indices. DISTINCT changes no row:
# it keeps both engines from computing each baseline again wherever it is named.
_SCALING = """
SELECT {compared_first}, compared.throughput,
       compared.throughput / compared.throughput_on_1 AS speed_up,
       compared.throughput / compared.throughput_on_1 / compared.num_gpus AS efficiency,
       compared.origin, {compared_others}, compared.item, compared.num_repeats, compared.lowest,
       compared.highest, compared.num_doubtful, compared.throughput_on_1, compared.host,
       compared.gpu, compared.software_key, compared.shares_host, compared.machine_id,
       compared.trial_id, compared.curve, {compared_axes}
FROM (
  SELECT DISTINCT grouped.*, {on_one_gpu} AS throughput_on_1
  FROM (
    SELECT {first}, {others}, {axes}, {origin}, trials.id AS trial_id, trials.curve,
           attempts.machine_id, machines.host, machines.gpu, environments.software_key,
           attempts.shares_host, measurements.item, count(*) AS num_repeats,
           {typical} AS throughput,
           min(measurements.throughput) AS lowest,
           max(measurements.throughput) AS highest,
           sum(CASE WHEN measurements.verdict = 'valid' THEN 0 ELSE 1 END) AS num_doubtful
    FROM attempts
    JOIN trials ON trials.id = attempts.trial_id
    JOIN machines ON machines.id = attempts.machine_id
    JOIN measurements ON measurements.attempt_id = attempts.id
    JOIN environments ON environments.id = attempts.environment_id
    WHERE {is_quotable}
    GROUP BY {first}, {others}, {axes}, trials.id, trials.curve,
             attempts.machine_id, machines.host, machines.gpu, environments.software_key,
             attempts.shares_host, measurements.item
  ) AS grouped
) AS compared
"""

_STEP_SAMPLES = {
    "sqlite": """
SELECT attempt_id, step,
       CASE WHEN place < num_warm_up THEN 'warm_up' ELSE 'measure' END AS phase,
       (sum(gap_us + duration_us) OVER (PARTITION BY attempt_id ORDER BY place) - duration_us)
           / 1e6 AS start_s,
       duration_us / 1e6 AS duration_s, wait_us / 1e6 AS data_wait_s, loss, num_steps
FROM (
  SELECT arrays.attempt_id, each.key AS place,
         arrays.first_step + each.key * arrays.num_steps AS step, arrays.num_warm_up,
         arrays.num_steps,
         (arrays.least_duration + each.value) * arrays.time_unit_us AS duration_us,
         coalesce(json_extract(arrays.data_wait, '$[' || each.key || ']'), 0)
             * arrays.time_unit_us AS wait_us,
         json_extract(arrays.gap_before, '$[' || each.key || ']') * arrays.time_unit_us AS gap_us,
         arrays.least_loss
             + json_extract(arrays.loss_over_least, '$[' || each.key || ']') * arrays.loss_unit
             AS loss
  FROM step_arrays AS arrays
  JOIN attempts ON attempts.id = arrays.attempt_id AND attempts.deleted_at IS NULL
  CROSS JOIN json_each(arrays.duration_over_least) AS each
)
""",
    "postgresql": """
SELECT attempt_id, step,
       CASE WHEN place < num_warm_up THEN 'warm_up' ELSE 'measure' END AS phase,
       CAST(sum(gap_us + duration_us) OVER (PARTITION BY attempt_id ORDER BY place) - duration_us
            AS double precision) / 1e6 AS start_s,
       CAST(duration_us AS double precision) / 1e6 AS duration_s,
       CAST(wait_us AS double precision) / 1e6 AS data_wait_s, loss, num_steps
FROM (
  SELECT arrays.attempt_id, each.number - 1 AS place,
         arrays.first_step + (each.number - 1) * arrays.num_steps AS step,
         arrays.num_warm_up, arrays.num_steps,
         (arrays.least_duration + CAST(each.over_least AS bigint)) * arrays.time_unit_us
             AS duration_us,
         coalesce(CAST(each.wait AS bigint), 0) * arrays.time_unit_us AS wait_us,
         CAST(each.gap AS bigint) * arrays.time_unit_us AS gap_us,
         arrays.least_loss + CAST(each.loss AS double precision) * arrays.loss_unit AS loss
  FROM step_arrays AS arrays
  JOIN attempts ON attempts.id = arrays.attempt_id AND attempts.deleted_at IS NULL
  CROSS JOIN LATERAL ROWS FROM (
      json_array_elements_text(arrays.duration_over_least),
      json_array_elements_text(arrays.data_wait),
      json_array_elements_text(arrays.gap_before),
      json_array_elements_text(arrays.loss_over_least)
  ) WITH ORDINALITY AS each (over_least, wait, gap, loss, number)
) AS unpacked
""",
}

_VIEWS = {
    "throughput": _THROUGHPUT,
    "scaling": _SCALING,
    "failures": _FAILURES,
}
WITH_AXES = tuple(_VIEWS)
"""Views that have a column for every axis of the table `trials`."""

_FIRST = ("model", "strategy", "num_gpus")
_OTHERS = ("hosts", "batch_size", "precision")
_NOT_AXES = ("id", "curve", "spec")


def replace_views(connection: sa.Connection) -> None:
    """Make those of `WITH_AXES` for the axes that the table has now.

    On PostgreSQL rights on them and views on top of them stay; SQLite has no rights, and looks up
    what a view names when it is read.
    """
    columns = [column["name"] for column in sa.inspect(connection).get_columns("trials")]
    # a measured item has the column of that name
    apart = (*_FIRST, *_OTHERS, *_NOT_AXES, "item")
    axes = [name for name in columns if name not in apart]
    parts = {
        "attempts": _ATTEMPTS,
        "run_dir": _RUN_DIR,
        "origin": _ORIGIN,
        "is_quotable": _IS_QUOTABLE,
        "typical": _TYPICAL,
        "on_one_gpu": _ON_ONE_GPU.format(is_quotable=_IS_QUOTABLE, typical=_TYPICAL),
    }
    for name, names in {"first": _FIRST, "others": _OTHERS, "axes": axes}.items():
        # quoted, because a sweep may have called an axis `order`
        parts[name] = ", ".join(f'trials."{axis}"' for axis in names)
        parts[f"compared_{name}"] = ", ".join(f'compared."{axis}"' for axis in names)
    for name, view in _VIEWS.items():
        _replace(connection, name, view.format(**parts))


def drop_views(connection: sa.Connection) -> None:
    """Drop those of `WITH_AXES`: no server changes the type of a column that a view names."""
    for name in (*WITH_AXES, "latest_attempts"):  # the last of an earlier version
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def _replace(connection: sa.Connection, name: str, query: str) -> None:
    # text of its own: SQLAlchemy would take a colon, and psycopg a percent sign, for a parameter
    query = query.replace(":", "\\:")
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"CREATE OR REPLACE VIEW {name} AS {query}"))
    else:
        connection.execute(sa.text(f"DROP VIEW IF EXISTS {name}"))
        connection.execute(sa.text(f"CREATE VIEW {name} AS {query}"))


_TRIALS = cast(sa.Table, TrialRow.__table__)
_KINDS: Mapping[type[AxisValue], sa.types.TypeEngine[Any]] = {
    bool: Flag(),
    int: Whole(),
    float: Real(),
    str: sa.Text(),
}


def insert_trials(connection: sa.Connection, specs: Mapping[str, TrialSpec]) -> None:
    """Insert those of these trials, by their ids, that are not there yet.

    Of one that is there `compare` may be another now, and how it is read, which are no part of its
    identity. Raises ReadOtherwiseError as `refuse_other_readings`.
    """
    new, changed = dict(specs), {}
    for ids in in_chunks(list(specs)):
        known = sa.select(TrialRow.id, TrialRow.spec).where(TrialRow.id.in_(ids))
        for trial_id, text in connection.execute(known):
            spec = new.pop(trial_id)
            if spec.to_json() != text:
                changed[trial_id] = spec
    refuse_other_readings(connection, changed.values())
    for spec in changed.values():
        update_trial(connection, spec)
    add_columns(connection, new.values())
    insert_all(connection, TrialRow, [_values(id_, spec) for id_, spec in new.items()])
    _fill(connection, new)


def update_trial(connection: sa.Connection, spec: TrialSpec) -> None:
    """Write anew what is no part of a trial's identity."""
    row = sa.update(TrialRow).where(TrialRow.id == spec.trial_id)
    connection.execute(row.values(_values(spec.trial_id, spec)))


class ReadOtherwiseError(StoreError):
    """Raised for a trial of a program whose numbers were read another way."""


def refuse_other_readings(connection: sa.Connection, specs: Iterable[TrialSpec]) -> None:
    """Raise ReadOtherwiseError where a trial's numbers were read another way than its spec says."""
    from store.database import own_command  # here, because that module needs this one

    programs = {spec.trial_id: spec for spec in specs if spec.read}
    measured = (
        sa.select(TrialRow.spec, SweepRow.name)
        .distinct()
        .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
        .join(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
    )
    for ids in in_chunks(list(programs)):
        for text, sweep in connection.execute(measured.where(TrialRow.id.in_(ids))):
            was = TrialSpec.from_json(text)
            now = programs[was.trial_id].reading
            other = [name for name, value in now.items() if value != was.reading[name]]
            if other:
                before = shlex.join(f"{name}={as_typed(was.reading[name])}" for name in other)
                changed = [f"{name}={as_typed(now[name])}" for name in other]
                again = own_command(connection.engine, "read", "--sweep", sweep, *changed)
                raise ReadOtherwiseError(
                    f"trial {was.trial_id[:8]} has numbers that were read with {before}; give that "
                    f"again, or `{again}` reads its kept log again, and nothing runs again. To "
                    "keep both, give one another command.name"
                )


def free_columns(connection: sa.Connection) -> dict[str, sa.Column[Any]]:
    """Return the columns of free axes by their names, typed as the database has them."""
    columns = {}
    for name, kind in _columns(connection).items():
        if name not in _TRIALS.columns and name not in RETIRED:
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


def add_columns(connection: sa.Connection, specs: Iterable[TrialSpec] = ()) -> None:
    """Give the table a column for every defined axis and every free axis of these trials, and the
    views theirs, inside the caller's transaction.
    """
    known = _columns(connection)
    new: dict[str, sa.types.TypeEngine[Any]] = {}
    wider: dict[str, sa.types.TypeEngine[Any]] = {}
    kinds_of: dict[str, set[type[AxisValue]]] = {}
    for spec in specs:
        for name, value in spec.free:
            kinds_of.setdefault(name, set()).add(type(value))
    for name, kinds in kinds_of.items():
        if name not in known:
            new[name] = _KINDS[_widest(kinds)]
            continue
        widest = _widest({*kinds, _kind_of(known[name])})
        if widest != _kind_of(known[name]):
            wider[name] = _KINDS[widest]
    missing = [axis for axis in AXES.values() if axis.name not in known]
    for axis in missing:
        is_null = "" if is_lacked(axis) else "NOT NULL "
        more = f"{is_null}DEFAULT {sql_default(axis.default)}"
        _alter(connection, "ADD", axis.name, _KINDS[axis.type], more)
    for name, kind in new.items():
        _alter(connection, "ADD", name, kind)
    if wider:
        drop_views(connection)
        for name, kind in wider.items():
            _alter(connection, "DROP", name)
            _alter(connection, "ADD", name, kind)
        replace_views(connection)
        free = sa.select(TrialRow.id, TrialRow.spec).where(TrialRow.spec.contains('"free":'))
        rows = connection.execute(free).all()
        for name in wider:
            _fill(connection, {row.id: TrialSpec.from_json(row.spec) for row in rows}, only=name)
    elif missing or new:
        replace_views(connection)


def _kind_of(column_type: Any) -> type[AxisValue]:
    if isinstance(column_type, sa.Boolean):
        return bool
    if isinstance(column_type, sa.Integer):
        return int
    if isinstance(column_type, sa.Float):
        return float
    return str


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

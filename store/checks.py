"""Checks a database: SQLite's own checks, cells of another type, digests and counts of attempts."""

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.cli.terminal import Progress, silent
from scalemark.host.own_code import typed
from scalemark.records.attempt import can_have_uid, sweep_uid
from scalemark.records.machine import Machine
from scalemark.records.measurement import Outcome
from scalemark.records.references import Reference
from scalemark.records.trial import AXES, RetiredAxisError, TrialSpec
from store import schema
from store.database import locate, open_existing
from store.errors import DamagedError, StoreError
from store.rows import digest, environment_values, machine_gpus
from store.schema import Base, condition_of
from store.sqlite import ONLY_READS, SqliteFile, cause_of, connect_read_only, end_if_interrupted
from store.tables import MAKE_AGAIN, free_columns, free_value

MOST_OF_ONE_CHECK = 50
FILE = "(file)"
_DAMAGED = f"move the file away with its -wal and -shm, then {MAKE_AGAIN}"
_MADE_BY_HAND = (
    "no scalemark writes this: a damaged disk or another program did; take the row from a "
    "backup, or delete it"
)
_REBUILD = f"`{typed('db')} rebuild` reads its run folder, which may still have them"
_ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong in a database."""

    table: str  # or (file)
    row: str  # its primary key; empty when the whole table is meant
    what: str
    remedy: str


_Problems = Iterator[tuple[object, str]]
"""The primary keys of rows, and what is wrong with them."""


def check(url: str, progress: Progress = silent) -> Iterator[Finding]:
    """Yield all that is wrong. Raises StoreError, before the first, when there is nothing of ours
    to check, or it is so damaged that it cannot be opened.
    """
    database = locate(url)
    engine = open_existing(url)
    if engine is None:
        raise StoreError(
            f"{database.name}: no such database, or an empty one; there is nothing to check"
        )
    return _findings(engine, database.path if isinstance(database, SqliteFile) else None, progress)


def explained(url: str) -> DamagedError | None:
    """Return why a command failed that read a database; None where nothing in it is damaged."""
    try:
        damage = next(check(url), None)
    except StoreError as error:
        return DamagedError(str(error))
    if damage is None:
        return None
    where = f"{damage.table} {damage.row}".strip()
    return DamagedError(
        f"{locate(url).name}: {where}: {damage.what}; {damage.remedy}; "
        f"`{typed('db')} check` lists all that is damaged"
    )


def _findings(engine: sa.Engine, path: Path | None, progress: Progress) -> Iterator[Finding]:
    try:
        if path is not None:
            progress("pages and indices", 0, 0)
            yield from _readable(FILE, partial(_pages, path), _DAMAGED)
            yield from _foreign_keys(path)
            for of_schema in Base.metadata.sorted_tables:
                cells = partial(_invalid_cells, path, of_schema)
                yield from _readable(of_schema.name, cells, _MADE_BY_HAND)
        with engine.connect() as connection:
            reader = connection.execution_options(**ONLY_READS[engine.dialect.name])
            for table, remedy, made in _CHECKS:
                progress(table, 0, 0)
                yield from _readable(table, partial(made, reader), remedy)
    finally:
        engine.dispose()


def _readable(table: str, make: Callable[[], _Problems], remedy: str) -> Iterator[Finding]:
    """Yield the first of one kind, and count the rest; what cannot be read is a finding."""
    try:
        problems = make()
        for row, what in islice(problems, MOST_OF_ONE_CHECK):
            yield Finding(table=table, row=str(row), what=what, remedy=remedy)
        num_more = sum(1 for _ in problems)
        if num_more:
            what = f"{num_more} more findings of this kind"
            yield Finding(table=table, row="", what=what, remedy=remedy)
    # SQLite takes any value into a column of a table that is not STRICT
    except (sa.exc.DBAPIError, sqlite3.DatabaseError, ValueError, TypeError, AttributeError) as bad:
        cause = bad.orig if isinstance(bad, sa.exc.DBAPIError) else bad
        end_if_interrupted(cause)
        what = f"cannot be read: {cause_of(cause)}"
        yield Finding(table=table, row="", what=what, remedy=_DAMAGED)


def _pages(path: Path) -> _Problems:
    """Run SQLite's own check of pages, indices, types, NOT NULL, CHECK and UNIQUE."""
    with closing(connect_read_only(path)) as connection:
        for (what,) in connection.execute(f"PRAGMA integrity_check({MOST_OF_ONE_CHECK})"):
            if what != "ok":
                yield "", " ".join(what.split())


def _foreign_keys(path: Path) -> Iterator[Finding]:
    try:
        with closing(connect_read_only(path)) as connection:
            broken = connection.execute("PRAGMA foreign_key_check").fetchmany(MOST_OF_ONE_CHECK)
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return  # the check of the pages has said so
    for table, rowid, parent, _ in broken:
        row = "" if rowid is None else f"rowid {rowid}"
        what = f"the row of {parent} that it names is not there"
        yield Finding(table=table, row=row, what=what, remedy=_MADE_BY_HAND)


def _invalid_cells(path: Path, table: sa.Table) -> _Problems:
    """Find cells that conditions refuse: SQLite's check passes them over when it reads alone."""
    key = next(iter(table.primary_key)).name
    with closing(connect_read_only(path)) as connection:
        for column in table.columns:
            if condition := condition_of(column):
                wrong = f'"{column.name}" IS NOT NULL AND NOT ({condition})'
                rows = connection.execute(f'SELECT "{key}" FROM {table.name} WHERE {wrong}')
                for (row,) in rows:
                    yield row, f"{column.name}: an invalid value"


def _rows(connection: sa.Connection, table: type[Base], *more: Any) -> Iterator[sa.RowMapping]:
    """Yield rows in the order of the database, in little memory."""
    statement = sa.select(table.__table__, *more)
    yield from connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(statement).mappings()


def _unlike(row: sa.RowMapping, wanted: Mapping[str, object]) -> _Problems:
    for column, value in wanted.items():
        if row[column] != value:
            what = f"its {column} is {row[column]}; what it stands for gives {value}"
            yield row["id"], what


def _identity(connection: sa.Connection) -> _Problems:
    info = schema.InfoRow
    if connection.scalar(sa.select(info.value).where(info.name == "id")) is None:
        yield "id", "it has no id: nobody who takes rows out of it can say where they are from"


def _machines(connection: sa.Connection) -> _Problems:
    gpus: dict[int, list[sa.RowMapping]] = defaultdict(list)
    for row in _rows(connection, schema.GpuRow):
        gpus[row["machine_id"]].append(row)
    names = {field.name for field in fields(Machine)} - {"gpus", "links"}
    for row in _rows(connection, schema.MachineRow):
        in_order = sorted(gpus[row["id"]], key=lambda gpu: gpu["position"])
        own = machine_gpus(in_order)
        machine = Machine(**{name: row[name] for name in names}, gpus=own)
        yield from _unlike(row, {"key": machine.key, "num_gpus": len(own)})


def _environments(connection: sa.Connection) -> _Problems:
    for row in _rows(connection, schema.EnvironmentRow):
        try:
            yield from _unlike(row, environment_values(row["description"]))
        except (KeyError, TypeError, AttributeError) as error:
            yield row["id"], f"description: makes no sense: {type(error).__name__}: {error}"


def _sweeps(connection: sa.Connection) -> _Problems:
    for row in _rows(connection, schema.SweepRow):
        of_sweep = (row["name"], row["started_at"], row["command"])
        # a sweep that was rebuilt without its sweep.json has no command
        if row["command"] != "" and not can_have_uid(row["uid"], *of_sweep):
            yield from _unlike(row, {"uid": sweep_uid(*of_sweep)})


def _keyed(
    table: type[Base], described: Callable[[sa.RowMapping], object]
) -> Callable[[sa.Connection], _Problems]:
    def made(connection: sa.Connection) -> _Problems:
        for row in _rows(connection, table):
            yield from _unlike(row, {"key": digest(described(row))})

    return made


def _placement(row: sa.RowMapping) -> dict[str, object]:
    return {name: row[name] for name in row if name not in ("id", "key")}


def _references(connection: sa.Connection) -> _Problems:
    for row in _rows(connection, schema.ReferenceRow):
        try:
            reference = Reference(**{field.name: row[field.name] for field in fields(Reference)})
        except ValueError as error:
            yield row["id"], str(error)
        else:
            yield from _unlike(row, {"key": reference.key})


def _trials(connection: sa.Connection) -> _Problems:
    free = free_columns(connection)
    for row in _rows(connection, schema.TrialRow, *free.values()):
        if what := _problem_of_trial(row, free):
            yield row["id"], what


def _problem_of_trial(row: sa.RowMapping, free: Mapping[str, sa.Column[Any]]) -> str:
    try:
        spec = TrialSpec.from_json(row["spec"])
    except RetiredAxisError:
        return ""  # nothing can tell what it should be
    except (ValueError, TypeError) as error:
        return f"its spec makes no sense: {error}"
    if spec.to_json() != row["spec"]:
        return "its spec is not canonical JSON"
    if not spec.has_id(row["id"]):
        return f"its id is not the hash of its spec, which is {spec.trial_id}"
    wanted: dict[str, object] = {name: spec.axes[name] for name in AXES}
    of_spec = dict(spec.free)
    for name, column in free.items():
        wanted[name] = free_value(of_spec.get(name), column.type)
    wanted |= {"curve": spec.curve, "strategy": spec.strategy}
    different = [name for name in wanted if wanted[name] != row[name]]
    parts = (f"{name}={row[name]} (spec: {wanted[name]})" for name in different)
    if different:
        return f"columns differ from its spec: {', '.join(parts)}"
    return ""


def _said_by(sql: str) -> Callable[[sa.Connection], _Problems]:
    def made(connection: sa.Connection) -> _Problems:
        for row in connection.execute(sa.text(sql)):
            yield row[0], row[1]

    return made


_UNMEASURED = """
SELECT attempts.id, 'completed, and without a measurement' FROM attempts
LEFT JOIN measurements ON measurements.attempt_id = attempts.id
WHERE attempts.outcome = 'completed' AND measurements.attempt_id IS NULL"""
# what was imported may have come without steps, and what a program reported has none
_WITHOUT_STEPS = """
SELECT measurements.attempt_id,
       'it has no steps; its measurement was made of ' || measurements.num_steps
FROM measurements
JOIN attempts ON attempts.id = measurements.attempt_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
LEFT JOIN step_arrays ON step_arrays.attempt_id = measurements.attempt_id
WHERE step_arrays.attempt_id IS NULL AND sweeps.origin = '' AND NOT measurements.reported"""
_OTHER_OUTCOMES = f"""
SELECT repeats.id, repeats.state || ', but its last attempt is ' || attempts.outcome
FROM repeats
JOIN attempts ON attempts.trial_id = repeats.trial_id AND attempts.sweep_id = repeats.sweep_id
     AND attempts.repeat = repeats.repeat AND attempts.attempt = repeats.num_attempts
WHERE repeats.state IN ({", ".join(repr(outcome.value) for outcome in Outcome)})
      AND repeats.state <> attempts.outcome"""
# A running attempt is not there yet, and of what is imported only a part may have been chosen.
_COUNTS = """
SELECT id, 'it has ' || num || ' attempts that ended; it counts ' || wanted
FROM (
  SELECT repeats.id, sweeps.origin,
         repeats.num_attempts - CASE WHEN repeats.state = 'running' THEN 1 ELSE 0 END AS wanted,
         (SELECT count(*) FROM attempts WHERE attempts.trial_id = repeats.trial_id
          AND attempts.sweep_id = repeats.sweep_id AND attempts.repeat = repeats.repeat) AS num
  FROM repeats JOIN sweeps ON sweeps.id = repeats.sweep_id
) AS counted
WHERE num > wanted OR (num < wanted AND origin = '')"""

# table, what to do, and the check
_CHECKS: tuple[tuple[str, str, Callable[[sa.Connection], _Problems]], ...] = (
    ("database_info", _MADE_BY_HAND, _identity),
    ("machines", _MADE_BY_HAND, _machines),
    ("environments", _MADE_BY_HAND, _environments),
    ("sweeps", _MADE_BY_HAND, _sweeps),
    ("trials", _MADE_BY_HAND, _trials),
    ("placements", _MADE_BY_HAND, _keyed(schema.PlacementRow, _placement)),
    ("op_placements", _MADE_BY_HAND, _keyed(schema.OpPlacementRow, itemgetter("description"))),
    ("reference_results", _MADE_BY_HAND, _references),
    ("attempts", _REBUILD, _said_by(_UNMEASURED)),
    ("measurements", _REBUILD, _said_by(_WITHOUT_STEPS)),
    ("repeats", _MADE_BY_HAND, _said_by(_COUNTS)),
    ("repeats", _MADE_BY_HAND, _said_by(_OTHER_OUTCOMES)),
)

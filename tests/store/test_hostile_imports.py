"""Whatever stands in an imported file, each record is added or rejected with its reason, in bounded memory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from store.database import open_for_writing
from store.exchange.bulk import Bulk, add_all
from store.exchange.exports import ExportFormat, export
from store.exchange.imports import import_files
from store.exchange.portable import Portable, from_json, to_json
from tests.empty import make_empty
from tests.mutations import Mutation, as_json, every, sampled
from tests.portables import attempt, everything

pytestmark = pytest.mark.integration

RECORDS = {
    f"{number} {type(record).__name__}": record for number, record in enumerate(everything())
}


@pytest.fixture
def engine() -> Iterable[sa.Engine]:
    make_empty("r.db")
    opened = open_for_writing("r.db")
    yield opened
    opened.dispose()


def check_each(engine: sa.Engine, mutations: Iterable[Mutation]) -> None:
    """Each is refused, or the database takes it; with any other error the mutation is named."""
    for mutation in mutations:
        try:
            take_in(engine, as_json(mutation.value))
        except ValueError:
            continue
        except Exception as error:
            pytest.fail(f"{mutation}: {type(error).__name__}: {error}")


def take_in(engine: sa.Engine, line: str) -> None:
    record = from_json(line)
    with engine.connect() as connection, connection.begin() as transaction:
        Bulk(origin="elsewhere").add(connection, [("line 1", record)])
        transaction.rollback()


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_line_of_wrong_types_is_refused_or_taken(engine: sa.Engine, record: Portable) -> None:
    check_each(engine, sampled(json.loads(to_json(record)), 25, seed=19))


@pytest.mark.slow
@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_every_line_of_wrong_types_is_refused_or_taken(engine: sa.Engine, record: Portable) -> None:
    check_each(engine, every(json.loads(to_json(record))))


def test_a_kind_that_is_no_text_is_a_rejected_line() -> None:
    reported = json.loads(to_json(attempt()))
    Path("in.jsonl").write_text(
        "".join(f"{json.dumps(reported | {'kind': kind})}\n" for kind in ([], {}, 1, None))
    )
    assert [one.reason.split(":")[0] for one in import_files("r.db", ["in.jsonl"]).rejected] == [
        "kind='[]'",
        "kind='{}'",
        "kind='1'",
        "kind='None'",
    ]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database of all that one can hold."""
    folder = tmp_path_factory.mktemp("exported")
    database = str(folder / "s.db")
    make_empty(database)
    engine = open_for_writing(database)
    add_all(engine, everything())
    engine.dispose()
    export(database, str(folder / "in.sqlite"), ExportFormat.SQLITE)
    return folder


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE events SET state = 'nonsense' WHERE repeat_id = 1",
        "UPDATE events SET at_unix_us = 'late'",
        "UPDATE trials SET spec = '[]'",
        "UPDATE notes SET added_at = 'late'",
        "UPDATE measurements SET gpu_telemetry = '5'",
        "UPDATE gpus SET cores = 'x'",
        "UPDATE step_arrays SET gap_before = '{}'",
        "UPDATE reference_results SET num_gpus = 'x'",
    ],
)
def test_a_database_with_a_cell_of_another_type_is_imported_around_it(
    exported: Path, damage: str
) -> None:
    Path("in.sqlite").write_bytes((exported / "in.sqlite").read_bytes())
    with closing(sqlite3.connect("in.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA writable_schema = ON")
        try:
            connection.execute(damage)
        except sqlite3.IntegrityError:
            pytest.skip("SQLite refuses it in any database")
    added = import_files("r.db", ["in.sqlite"])
    assert added.num_new + added.num_references + len(added.rejected) > 0

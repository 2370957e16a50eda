"""Whatever stands in an imported file, each record is added or rejected with its reason, in bounded memory."""

from __future__ import annotations

import csv
import io
import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from scalemark.records.references import Rejected
from store.database import open_for_writing
from store.exchange import columnar
from store.exchange.bulk import Bulk, add_all
from store.exchange.exports import ExportFormat, export
from store.exchange.flat import Kind, Row
from store.exchange.imports import import_files
from store.exchange.portable import Portable, from_json, to_json
from tests.conftest import PROJECT
from tests.empty import make_empty
from tests.mutations import Mutation, as_json, every, sampled
from tests.portables import attempt, everything

IMPORTS = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(PROJECT)!r})
from store.exchange.imports import import_files
added = import_files("r.db", ["in.parquet"])
status = Path("/proc/self/status").read_text()  # getrusage would tell of whoever started this process, too
peak_bytes = int(status.partition("VmHWM:")[2].split()[0]) * 1024
print(json.dumps([added.num_new, [one.reason for one in added.rejected], peak_bytes]))
"""
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
    told = json.loads(to_json(attempt()))
    Path("in.jsonl").write_text(
        "".join(f"{json.dumps(told | {'kind': kind})}\n" for kind in ([], {}, 1, None))
    )
    assert [one.reason.split(":")[0] for one in import_files("r.db", ["in.jsonl"]).rejected] == [
        "kind='[]'",
        "kind='{}'",
        "kind='1'",
        "kind='None'",
    ]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that a database can hold, in every format."""
    folder = tmp_path_factory.mktemp("exported")
    database = str(folder / "s.db")
    make_empty(database)
    engine = open_for_writing(database)
    add_all(engine, everything())
    engine.dispose()
    for kind in (ExportFormat.CSV, ExportFormat.PARQUET, ExportFormat.SQLITE):
        export(
            database, str(folder / f"in.{kind}"), kind, with_steps=kind is not ExportFormat.SQLITE
        )
    return folder


ODD_COLUMNS: dict[str, pa.Scalar[Any]] = {
    "null": pa.scalar(None),
    "truth": pa.scalar(True),
    "whole": pa.scalar(2**63 - 1),
    "not a number": pa.scalar(float("nan")),
    "text": pa.scalar("x"),
    "bytes": pa.scalar(b"\xff"),
    "far future": pa.scalar(2**60, pa.timestamp("ms", "UTC")),
    "list": pa.scalar([1]),
    "structure": pa.scalar({"a": 1}),
    "map": pa.scalar([("a", 1)], pa.map_(pa.string(), pa.int64())),
    "decimal": pa.scalar(2, pa.decimal128(20, 2)),
}


@pytest.mark.parametrize("odd", ODD_COLUMNS)
@pytest.mark.parametrize(
    ("changed", "columns"),
    [("in", ["started_at"]), ("in-steps", ["loss_unit"])],
)
def test_a_parquet_column_of_another_type_is_rejected(
    exported: Path, changed: str, columns: list[str], odd: str
) -> None:
    for column in columns:
        for stem in ("in", "in-steps"):
            table = pq.read_table(exported / f"{stem}.parquet")
            if stem == changed:
                values = pa.repeat(ODD_COLUMNS[odd], len(table))
                table = table.set_column(table.column_names.index(column), column, values)
            pq.write_table(table, f"{stem}.parquet")
        Path("r.db").unlink(missing_ok=True)
        make_empty("r.db")
        added = import_files("r.db", ["in.parquet"])
        assert added.num_new + len(added.rejected) > 0, column
        assert all(one.reason for one in added.rejected)


@pytest.mark.integration
def test_a_small_parquet_file_of_gigabytes_is_rejected(exported: Path) -> None:
    table = pq.read_table(exported / "in.parquet").slice(0, 1)
    index = table.column_names.index("message")
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 4000, pa.int32()), pa.array(["x" * 2_000_000])
    )
    table = table.take(pa.array([0] * 4000)).set_column(index, "message", texts)
    pq.write_table(table, "in.parquet", compression="zstd")  # 8 GB of text
    assert Path("in.parquet").stat().st_size < 500_000
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    num_new, reasons, peak_bytes = json.loads(ended.stdout)
    assert (num_new, len(reasons)) == (0, 4000)
    assert "wanted no more than 1,048,576 in a row" in reasons[0]
    assert peak_bytes < 1_000_000_000


def test_a_parquet_file_of_too_many_rows_is_rejected() -> None:
    whole = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int8()), pa.array([1]))
    with pq.ParquetWriter("in.parquet", pa.schema([("attempt", pa.int64())])) as writer:
        for _ in range(21):
            writer.write_table(pa.table({"attempt": whole.cast(pa.int64())}))
    (rejected,) = import_files("r.db", ["in.parquet"]).rejected
    assert rejected.reason.startswith("21,000,000 rows in ")
    assert "wanted no more than 20,000,000, or one per byte" in rejected.reason


def test_measured_rows_of_ours_are_read_however_many_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "_MOST_ROWS", 1000)
    chance = random.Random(7)
    measured: list[Row] = [{"loss": chance.uniform(0.1, 0.2)} for _ in range(5000)]
    columnar.write(tmp_path / "t.parquet", {"loss": Kind.NUMBER}, measured)
    found = columnar.read(tmp_path / "t.parquet", {"loss": Kind.NUMBER}, frozenset())
    assert [one if isinstance(one, Rejected) else one[1] for one in found] == measured


def test_long_texts_of_ours_are_read_for_a_row_group_has_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columnar, "_MOST_BYTES_OF_A_GROUP", 2**20)
    told: list[Row] = [{"message": f"{number} {'你' * 2000}"} for number in range(500)]
    columnar.write(tmp_path / "t.parquet", {"message": Kind.TEXT}, told)
    found = columnar.read(tmp_path / "t.parquet", {"message": Kind.TEXT}, frozenset())
    assert [one if isinstance(one, Rejected) else one[1] for one in found] == told


@pytest.mark.parametrize("stem", ["in", "in-steps"])
def test_a_cell_of_csv_of_another_type_is_rejected_or_taken(exported: Path, stem: str) -> None:
    rows = list(csv.reader(io.StringIO((exported / f"{stem}.csv").read_text(), newline="")))
    for name in ("in.csv", "in-steps.csv"):
        Path(name).write_bytes((exported / name).read_bytes())
    for mutation in sampled(rows[:3], 6, seed=7):
        if len(mutation.at) != 2:
            continue
        changed = [
            [cell if isinstance(cell, str) else as_json(cell) for cell in row]
            for row in mutation.value
        ]
        with Path(f"{stem}.csv").open(
            "w", newline="", encoding="utf-8", errors="surrogatepass"
        ) as file:
            csv.writer(file).writerows(changed)
        make_empty("r.db")
        added = import_files("r.db", ["in.csv"])
        assert added.num_new + len(added.rejected) > 0, mutation


@pytest.mark.integration
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

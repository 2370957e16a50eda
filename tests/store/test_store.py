"""What was measured is in the database, once and whole; nobody else's file is touched."""

import json
import multiprocessing
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, fields, replace
from multiprocessing.synchronize import Barrier
from pathlib import Path

import filelock
import pytest
import sqlalchemy as sa

from scalemark.records.attempt import Placement
from scalemark.records.measurement import Measurement
from scalemark.records.references import Reference
from scalemark.records.trial import TrialSpec
from store import schema, sqlite
from store.checks import check
from store.database import open_for_reading
from store.errors import StoreError
from store.reading import earlier, queries
from store.reading.listing import show
from store.tables import SCHEMA
from store.writer import Writer
from tests.filled import (
    MACHINE,
    NOON,
    PLACEMENT,
    SOFTWARE_KEY,
    STEPS,
    attempt,
    begin,
    fill,
    measurement,
)
from tests.ran import ran
from tests.specs import small
from tests.tables import list_attempts


def test_an_attempt_is_read_back_as_it_was_written(db):
    spec = small(num_gpus=2)
    fill(db, [(spec, 123.5)])
    shown = show(open_for_reading(db), "1")
    assert TrialSpec.from_json(shown["trial"]["spec"]) == spec
    assert shown["trial"]["strategy"] == "replicated_none"
    (found,) = shown["attempts"]
    assert {key: found[key] for key in asdict(measurement(123.5))} == asdict(measurement(123.5))
    assert found["op_placement"] == {"update": {"ResourceApplyMomentum @ CPU:1": 6}}
    steps = queries.rows(open_for_reading(db), "SELECT * FROM step_samples ORDER BY step")
    assert steps == [asdict(step) | {"attempt_id": 1} for step in STEPS]


def test_how_an_attempt_was_started_is_shown(db):
    writer = Writer(db)
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    packed = replace(PLACEMENT, start="fork", cores=(2, 3), shares_host=True)
    ledger.run(repeat, "/runs/x", packed, NOON)
    ledger.finish(repeat.repeat_id, replace(attempt(small(), 5.0), placement=packed))
    writer.close()
    (found,) = show(open_for_reading(db), "1")["attempts"]
    assert (found["start"], found["cores"], found["shares_host"]) == ("fork", "2,3", True)


@pytest.mark.integration
def test_an_attempt_whose_end_nobody_saw_is_listed_and_shown():
    writer = Writer("results.db")
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
    ledger.finish(repeat.repeat_id, replace(attempt(small(), 5.0), exit_code=None, duration_s=None))
    writer.close()
    assert json.loads(run("list", "--json").stdout)[0]["duration_s"] is None
    (shown,) = json.loads(run("show", "1", "--json").stdout)["attempts"]
    assert (shown["exit_code"], shown["duration_s"], shown["start"], shown["shares_host"]) == (
        None,
        None,
        "spawn",
        False,
    )
    assert "completed" in run("list").stdout
    lines = [line.split() for line in run("show", "1").stdout.splitlines()]
    for line in (["exit_code"], ["duration_s"], ["start", "spawn"], ["shares_host", "false"]):
        assert line in lines


def test_a_failed_attempt_is_kept_without_measurement(db):
    fill(db, [(small(), None)])
    (row,) = list_attempts(open_for_reading(db))
    assert (row["outcome"], row["throughput"]) == ("failed", None)


@pytest.mark.parametrize(
    ("table", "record", "besides"),
    [
        (
            schema.MeasurementRow,
            Measurement,
            {
                "attempt_id",
                "op_placement_id",
                "verdict",
                "verdict_reasons",
                "gpu_telemetry",
                "profile",
                "replica_times",
                "truth",
                "metrics",
            },
        ),
        (schema.PlacementRow, Placement, {"id", "key"}),
        (schema.ReferenceRow, Reference, {"id", "key"}),
    ],
)
def test_a_table_has_a_column_for_every_field_of_its_record(table, record, besides):
    assert {column.name for column in table.__table__.columns} - besides == {
        field.name for field in fields(record)
    }


def test_half_an_attempt_is_never_there(db):
    spec = small()
    writer = Writer(db)
    ledger = begin(writer, {spec: 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
    broken = attempt(spec, 5.0)
    object.__setattr__(
        broken, "steps", [STEPS[0], STEPS[0]]
    )  # the same step twice breaks the last statement
    with pytest.raises(ValueError, match="step 0: wanted step 1, in calls of 1 steps"):
        ledger.finish(repeat.repeat_id, broken)
    writer.close()
    assert queries.rows(open_for_reading(db), "SELECT state FROM repeats") == [{"state": "running"}]
    for table in ("attempts", "measurements", "step_samples", "environments"):
        assert queries.rows(open_for_reading(db), f"SELECT * FROM {table}") == []


def test_foreign_keys_and_outcomes_are_checked(db):
    fill(db, [(small(), 1.0)])
    with closing(Writer(db)) as writer:
        for statement in ("trial_id = 'nobody'", "outcome = 'splendid'", "sweep_id = 99"):
            with (
                pytest.raises(sa.exc.IntegrityError, match=r"(?i)foreign key|check constraint"),
                writer.engine.begin() as connection,
            ):
                connection.execute(sa.text(f"UPDATE attempts SET {statement}"))


def test_completed_attempts_are_counted_per_machine_and_software(db):
    fill(db, [(small(), 1.0), (small(), 2.0), (small(num_gpus=2), None)])
    engine = open_for_reading(db)
    assert earlier.num_completed(engine, MACHINE.key, SOFTWARE_KEY) == {small().trial_id: 2}
    assert earlier.num_completed(engine, replace(MACHINE, host="other").key, SOFTWARE_KEY) == {}
    assert earlier.num_completed(engine, MACHINE.key, "other software") == {}
    of_others = earlier.num_completed(engine, MACHINE.key, "other software", of_others=True)
    assert of_others == {small().trial_id: 2}
    assert earlier.num_completed(engine, MACHINE.key, SOFTWARE_KEY, of_others=True) == {}


def test_a_sweep_is_continued_under_its_name(db):
    spec = small()
    fill(db, [(spec, None)])
    writer = Writer(db)
    ledger = begin(writer, {spec: 1, small(seed=2): 1})
    opened = [
        (repeat.trial_id, repeat.repeat, repeat.num_attempts) for repeat in ledger.open_repeats()
    ]
    assert opened == [(spec.trial_id, 1, 1), (small(seed=2).trial_id, 1, 0)]
    writer.close()
    assert len(queries.rows(open_for_reading(db), "SELECT * FROM sweep_trials")) == 2
    assert queries.rows(open_for_reading(db), "SELECT name, finished_at FROM sweeps") == [
        {"name": "first", "finished_at": None}
    ]


def test_processes_that_open_a_database_at_once_make_it_once():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.test_store"])
    barrier = context.Barrier(6)
    processes = [context.Process(target=_open, args=(barrier,)) for _ in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 6
    with closing(sqlite3.connect("r.db")) as connection:
        assert connection.execute("SELECT count(*) FROM database_info").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert list(check("r.db")) == []


def _open(barrier: Barrier) -> None:
    barrier.wait()
    Writer("r.db").close()


def test_a_database_that_another_process_makes_for_ever_is_reported(monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.01)
    with (
        filelock.FileLock("r.db.lock"),
        pytest.raises(StoreError, match=r"^r\.db: another process is making it, for 0\.01 s; wait"),
    ):
        Writer("r.db")


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE moz_places (id)")


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 100)


def _newer(path: Path) -> None:
    fill(str(path), [(small(), 1.0)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE database_info SET value = '9999' WHERE name = 'schema'")


def _of_version_1(path: Path) -> None:
    fill(str(path), [(small(), 1.0)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE database_info SET value = '1' WHERE name = 'schema'")


def _unreleased(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("alembic_version", "attempts", "sweeps", "trials"):
            connection.execute(f"CREATE TABLE {table} (id)")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (_foreign, r"f\.db: a database of another program \(it has moz_places\)"),
        (_garbage, r"f\.db: file is not a database"),
        (_newer, rf"written by a newer scalemark \(schema 9999, this one knows {SCHEMA}\)"),
        (
            _unreleased,
            rf"^f\.db: it has no version of a schema, this scalemark reads {SCHEMA}: it is damaged, or of a "
            r"version that was never released; move it away, then restore a backup, or make it "
            r"again with `scalemark db rebuild RUNS`$",
        ),
        (
            _of_version_1,
            rf"^f\.db: it has schema '1', this scalemark reads {SCHEMA}: .* move it away",
        ),
        (Path.mkdir, r"f\.db: a folder"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_and_left_as_it_was(make, message):
    path = Path("f.db")
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=message):
        Writer("f.db")
    assert before == (path.read_bytes() if path.is_file() else None)


def test_a_database_of_the_version_before_is_read_and_written():
    """It has a table more, whose rows belong to repeats."""
    fill("f.db", [(small(), 1.0)])
    with closing(sqlite3.connect("f.db")) as connection, connection:
        connection.execute("UPDATE database_info SET value = '5' WHERE name = 'schema'")
        connection.execute("CREATE TABLE events (repeat_id INTEGER REFERENCES repeats, number)")
        connection.execute("INSERT INTO events SELECT id, 1 FROM repeats")
    fill("f.db", [(small(num_gpus=2), 2.0)])
    assert len(list_attempts(open_for_reading("f.db"))) == 2


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "mysql://me:secret@host/db",
            r"^mysql://\.\.\.: no such kind of database; wanted a file, sqlite:///FILE or postgresql",
        ),
        ("no/such/folder/r.db", "there is no folder no/such/folder"),
    ],
)
def test_a_place_that_cannot_hold_a_database_is_refused(url, message):
    with pytest.raises(StoreError, match=message):
        Writer(url)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ran([sys.executable, "-m", "scalemark", *arguments])


@pytest.mark.parametrize("words", ["list", f"read {__file__}"])
def test_without_a_standard_output_there_is_a_word_on_the_other(words):
    ended = ran(f"{sys.executable} -m scalemark {words} >&-", shell=True)
    assert ended.returncode == 2
    assert ended.stderr.endswith(": there is no standard output to write to\n")
    assert len(ended.stderr.splitlines()) == 1


def test_columns_are_whole_in_a_pipe():
    fill("results.db", [(small(), 12.5)], name="n" * 90)
    assert "n" * 90 in run("list").stdout

"""Many read while one writes: nobody meets a locked database, or half an attempt."""

import multiprocessing
import os
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import pytest

from scalemark.records.trial import AXES
from store.checks import check
from store.database import one_view, open_for_reading
from store.errors import StoreError
from store.reading import queries
from store.reading.listing import show
from store.reading.sweeps import sweep_status
from store.sqlite import SqliteFile
from store.tables import WITH_AXES
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small
from tests.tables import asked, changing, list_attempts, query

pytestmark = pytest.mark.integration

NUM_READERS, NUM_ROUNDS, NUM_ATTEMPTS = 16, 2, 24
SPECS = [small(num_gpus=1), small(num_gpus=2)]
HALF = (
    "SELECT attempts.id FROM attempts LEFT JOIN measurements ON measurements.attempt_id = attempts.id"
    " LEFT JOIN (SELECT attempt_id, count(*) AS num FROM step_samples GROUP BY attempt_id) AS steps ON steps.attempt_id = attempts.id"
    " WHERE measurements.attempt_id IS NULL OR steps.num IS NULL OR steps.num <> 3"
)


def read(barrier: Barrier, written: Event) -> None:
    """At least so many rounds, and until all is written: one whole round of them after that."""
    barrier.wait()
    least, rounds, last = 0, 0, False
    while rounds < NUM_ROUNDS or not last:
        last, rounds = written.is_set(), rounds + 1
        engine = open_for_reading("r.db")
        found = list_attempts(engine)
        assert len(found) >= least, "an attempt has gone"
        least = len(found)
        assert all(row["throughput"] is not None for row in found)
        assert query(engine, HALF)[1] == []
        for row in queries.rows(engine, "SELECT num_gpus, num_repeats, speed_up FROM scaling"):
            assert row["num_gpus"] == 1 or row["speed_up"] is None or row["speed_up"] > 0
        if found:
            reported = show(engine, str(found[-1]["attempt"]))["attempts"]
            assert reported[0]["throughput"] is not None
        for status in sweep_status(engine, "all"):
            assert sum(status.counts.values()) == NUM_ATTEMPTS
        engine.dispose()
    assert least == NUM_ATTEMPTS


def write(barrier: Barrier, written: Event) -> None:
    writer = Writer("r.db")
    ledger = begin(writer, dict.fromkeys(SPECS, NUM_ATTEMPTS // 2), name="all", rerun=True)
    by_id = {spec.trial_id: spec for spec in SPECS}
    barrier.wait()
    for number, repeat in enumerate(ledger.open_repeats()):
        ledger.claim(repeat)
        ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ended = attempt(by_id[repeat.trial_id], 100.0 + number, repeat=repeat.repeat)
        ledger.finish(repeat.repeat_id, ended)
        if number % 8 == 4:
            writer.settle()  # moves the log into the file, while all the others read
    ledger.end(NOON, finished=True)
    writer.settle()
    writer.close()
    written.set()


def test_sixteen_processes_read_while_one_writes(writer):
    writer.close()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.test_many_readers"])
    barrier, written = context.Barrier(NUM_READERS + 1), context.Event()
    processes = [context.Process(target=read, args=(barrier, written)) for _ in range(NUM_READERS)]
    begun = Writer("r.db")
    begin(begun, dict.fromkeys(SPECS, 0), name="before", rerun=True)
    begun.close()
    processes.append(context.Process(target=write, args=(barrier, written)))
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [os.EX_OK] * len(processes)
    assert list(check("r.db")) == []


def test_one_view_reads_all_as_of_one_moment(db):
    """A bug: a table named an attempt that was deleted before its details were read."""
    fill(db, [(small(), 10.0)])
    with one_view():
        engine = open_for_reading(db)
        before = asked(queries.measured, engine)
        fill(db, [(small(), 20.0)], name="second")
        assert open_for_reading(db) is engine
        assert asked(queries.measured, engine) == before
        with pytest.raises(StoreError, match="nonsense"):
            query(engine, "SELECT nonsense FROM attempts")
        assert asked(queries.num_attempts, engine) > 0
    assert [row["throughput"] for row in asked(queries.measured, open_for_reading(db))] == [
        10.0,
        20.0,
    ]


def test_a_database_without_an_axis_that_cannot_be_written_is_read_in_memory(monkeypatch):
    fill("r.db", [(small(), 10.0)])
    with changing("r.db") as connection:
        for view in WITH_AXES:
            connection.exec_driver_sql(f"DROP VIEW {view}")
        connection.exec_driver_sql("ALTER TABLE trials DROP COLUMN xla")
    before = Path("r.db").read_bytes()
    monkeypatch.setattr(SqliteFile, "can_be_written", lambda self: False)
    (row,) = asked(queries.measured, open_for_reading("r.db"))
    assert (row["trial"]["xla"], row["throughput"]) == (AXES["xla"].default, 10.0)
    assert Path("r.db").read_bytes() == before

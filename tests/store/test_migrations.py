"""Databases of earlier versions go on being used: their sweeps have states, and can be continued."""

import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import filelock
import pytest

from store import database, queries
from store.database import open_for_reading
from store.errors import StoreError
from store.ledger import Claim
from store.records import Outcome
from store.writer import Writer
from tests.filled import MACHINE, NOON, PLACEMENT, SOFTWARE_KEY, attempt, begin
from tests.specs import small

DATABASES = Path(__file__).parent / "databases"
ONE, TWO = small().trial_id, small(num_gpus=2).trial_id  # what is in these databases


def of_version(revision: str) -> None:
    shutil.copy(DATABASES / f"{revision}.db", "r.db")


def repeats() -> list[tuple[object, ...]]:
    sql = "SELECT trial_id, repeat, state, num_attempts, orchestrator_id, pid, run_dir FROM repeats ORDER BY id"
    return [tuple(row.values()) for row in queries.rows(open_for_reading("r.db"), sql)]


@pytest.mark.parametrize(
    ("revision", "found"),
    [
        ("0001", [(ONE, 1, "completed", 1), (TWO, 1, "failed", 1)]),
        ("0002", [(ONE, 1, "completed", 1), (ONE, 2, "completed", 1), (TWO, 1, "failed", 1)]),
    ],
)
def test_repeats_of_earlier_versions_have_the_state_of_their_last_attempt(revision, found):
    of_version(revision)
    Writer("r.db").close()
    assert repeats() == [(*row, None, None, None) for row in found]
    started = queries.rows(open_for_reading("r.db"), "SELECT DISTINCT start, cores, shares_host FROM attempts")
    assert started == [{"start": "spawn", "cores": "", "shares_host": 0}]


def test_a_repeat_that_was_tried_again_counts_its_attempts_and_has_the_last_outcome():
    of_version("0002")
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute(
            "INSERT INTO attempts (sweep_id, trial_id, machine_id, repeat, attempt, outcome, message, exit_code, visible_devices, run_dir, started_at, duration_s)"
            " SELECT sweep_id, trial_id, machine_id, repeat, 2, 'interrupted', '', -2, '', '/runs/y', started_at, 1.0 FROM attempts WHERE outcome = 'failed'"
        )
    Writer("r.db").close()
    assert repeats()[-1][:4] == (TWO, 1, "interrupted", 2)


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_a_sweep_of_an_earlier_version_is_continued_under_its_name(revision):
    of_version(revision)
    writer = Writer("r.db")
    done = queries.num_completed(writer.engine, MACHINE.key, SOFTWARE_KEY)
    ledger = begin(writer, {small(): 2 - done[ONE], small(num_gpus=2): 2}, wanted_repeats=2)
    opened = [(repeat.trial_id, repeat.repeat, repeat.num_attempts) for repeat in ledger.open_repeats()]
    of_one = [(ONE, 2, 0)] if revision == "0001" else []
    assert opened == [*of_one, (TWO, 1, 1), (TWO, 2, 0)]
    failed = ledger.open_repeats()[-2]
    assert ledger.claim(failed, NOON) is Claim.TAKEN
    number = ledger.run(failed, "/runs/z", PLACEMENT, NOON)
    ledger.finish(failed.repeat_id, attempt(small(num_gpus=2), 70.0, number=number), NOON)
    writer.close()
    outcomes = [row["outcome"] for row in queries.show(open_for_reading("r.db"), TWO)["attempts"]]
    assert outcomes == [Outcome.FAILED, Outcome.COMPLETED]


@pytest.mark.parametrize(
    "make", [lambda: None, lambda: of_version("0001"), lambda: of_version("0002")], ids=["new", "0001", "0002"]
)
def test_processes_that_open_a_database_at_once_make_or_upgrade_it_once(make: Callable[[], None]):
    make()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.test_orchestrators_at_once"])
    barrier = context.Barrier(6)
    processes = [context.Process(target=_open, args=(barrier,)) for _ in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 6
    with closing(sqlite3.connect("r.db")) as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _open(barrier: Barrier) -> None:
    barrier.wait()
    Writer("r.db").close()


def test_a_database_that_an_older_version_is_writing_to_is_left_alone(monkeypatch):
    """Before schema 0003 the one writer held this lock as long as its sweep ran."""
    of_version("0002")
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    with (
        filelock.FileLock("r.db.lock"),
        pytest.raises(StoreError, match=r"^r\.db: another process is upgrading it, or an older scalemark is writing to it; wait"),
    ):
        Writer("r.db")
    with pytest.raises(StoreError, match="its schema is 0002"):
        open_for_reading("r.db")

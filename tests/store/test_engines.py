"""Both engines keep the same promises: who writes waits for its turn, who reads can change nothing, no password is ever shown."""

import multiprocessing
import sys
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from store import sqlite
from store.database import (
    check_writable,
    locate,
    open_existing,
    open_for_reading,
    open_for_writing,
    reading,
    writing,
)
from store.errors import AwayError, LockedError, StoreError
from store.ledger import ClaimResult
from store.tables import SCHEMA, VERSION_QUERY
from store.writer import Writer
from tests.app import run_app
from tests.filled import begin, fill
from tests.slurm import until
from tests.specs import small
from tests.tables import list_attempts, query


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM trials",
        "DELETE FROM trials RETURNING id",
        "WITH gone AS (DELETE FROM trials RETURNING id) SELECT * FROM gone",
        "SELECT 1; DELETE FROM trials",
        "COMMIT; DELETE FROM trials",
        "SET TRANSACTION READ WRITE",
        "CREATE TABLE mine (id int)",
        "PRAGMA query_only=0; DELETE FROM trials",
        "VACUUM INTO 'elsewhere.db'",
        "ATTACH 'elsewhere.db' AS other",
        "",
    ],
)
def test_a_query_can_change_nothing(db, statement):
    fill(db, [(small(), 1.0)])
    reader = open_for_reading(db)
    with pytest.raises(StoreError):
        query(reader, statement)
    assert query(reader, "SELECT count(*) FROM trials")[1] == [(1,)]
    assert not sa.inspect(reader).has_table("mine")


def test_a_query_for_what_is_not_there_tells_what_is(db):
    with pytest.raises(StoreError, match=r"nope.*; tables and views: .*attempts.*throughput"):
        query(open_for_reading(db), "SELECT * FROM nope")


def test_a_reader_cannot_write_through_its_engine_either(db):
    fill(db, [(small(), 1.0)])
    with pytest.raises(StoreError, match="read"), writing(open_for_reading(db)) as connection:
        connection.execute(sa.text("DELETE FROM step_arrays"))


def test_who_writes_keeps_other_writers_waiting_and_no_reader(db, monkeypatch):
    fill(db, [(small(), 1.0)])
    first = Writer(db)
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.05)
    second = Writer(db)
    with closing(first), closing(second), writing(first.engine) as connection:
        connection.execute(sa.text("UPDATE sweeps SET reason = 'being written'"))
        with (
            pytest.raises(LockedError, match=r"another program (kept it so|has held)"),
            writing(second.engine),
        ):
            pass
        for reader in (open_for_reading(db), second.engine):
            with reading(reader) as other:
                assert other.scalar(sa.text("SELECT reason FROM sweeps")) == ""


def test_who_stands_still_while_it_writes_keeps_nothing_and_may_try_again(
    postgresql_template_url, monkeypatch
):
    monkeypatch.setattr("store.postgresql._IDLE_IN_TRANSACTION_S", 5)
    backends = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    writer, watcher = Writer(postgresql_template_url), open_for_reading(postgresql_template_url)

    def write_and_stand_still() -> None:
        with writing(writer.engine) as connection:
            connection.execute(sa.text("UPDATE database_info SET value = 'mine' WHERE name = 'id'"))
            until(lambda: query(watcher, backends)[1] == [(1,)])  # the watcher alone

    with closing(writer):
        with pytest.raises(AwayError, match=r"stood still while it wrote.*repeat the command"):
            write_and_stand_still()
        with writing(writer.engine) as connection:
            name = "SELECT value FROM database_info WHERE name = 'id'"
            assert connection.scalar(sa.text(name)) != "mine"


def test_all_that_one_reader_asks_is_of_one_moment(db):
    with reading(open_for_reading(db)) as connection:
        count = sa.text("SELECT count(*) FROM sweeps")
        assert connection.scalar(count) == 0
        fill(db, [(small(), 1.0)])
        assert connection.scalar(count) == 0
    with closing(Writer(db)) as writer, reading(writer.engine) as connection:
        assert connection.scalar(count) == 1


def test_a_new_database_of_a_server_is_made_by_who_writes_first(postgresql_url):
    assert open_existing(postgresql_url) is None
    with pytest.raises(StoreError, match=r"^postgresql://.*: no such database; run a sweep first"):
        open_for_reading(postgresql_url)
    check_writable(postgresql_url)
    assert open_existing(postgresql_url) is None
    Writer(postgresql_url).close()
    assert list_attempts(open_for_reading(postgresql_url)) == []
    references = query(open_for_reading(postgresql_url), "SELECT count(*) FROM reference_results")[
        1
    ]
    assert references[0][0] > 300


def _open(url: str, barrier: Barrier) -> None:
    barrier.wait()
    Writer(url).close()


@pytest.mark.integration
def test_processes_that_open_a_servers_database_at_once_make_it_once(postgresql_url):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.test_engines"])
    barrier = context.Barrier(4)
    processes = [context.Process(target=_open, args=(postgresql_url, barrier)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert query(open_for_reading(postgresql_url), VERSION_QUERY)[1] == [(SCHEMA,)]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE TABLE moz_places (id int)",
            r"a database of another program \(it has moz_places\); name another",
        ),
        (None, rf"written by a newer scalemark \(schema 9999, this one knows {SCHEMA}\)"),
    ],
)
def test_a_servers_database_that_is_not_ours_is_left_alone(postgresql_url, statement, message):
    if statement is None:
        fill(postgresql_url, [(small(), 1.0)])
        statement = "UPDATE database_info SET value = '9999' WHERE name = 'schema'"
    connected = sa.create_engine(locate(postgresql_url)._url)
    with connected.begin() as connection:
        connection.execute(sa.text(statement))
    connected.dispose()
    for opens in (Writer, open_for_reading, check_writable):
        with pytest.raises(StoreError, match=message):
            opens(postgresql_url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@localhost:1/db",
        "postgres://me:hunter2@localhost:1/db",
        "postgresql+psycopg://me@localhost:1/db?password=hunter2",
        "postgresql://me:hunter2@localhost:no-port/db",
        "postgresql://me:p@hunter2@localhost:1/db",
        "postgresql://me@corp:p@hunter2@localhost:1/db",
        "postgresql://me:p@ss/hunter2@localhost:1/db",
        "postgresql://me:p@ss?hunter2@localhost:1/db",
        "mysql://me:hunter2@localhost/db",
    ],
)
def test_no_message_shows_a_password(url):
    for opens in (Writer, open_for_reading, check_writable):
        with pytest.raises(StoreError) as caught:
            opens(url)
        assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"


def test_an_at_sign_of_a_password_is_to_be_written_otherwise():
    with pytest.raises(
        StoreError,
        match=r"has more than one @ behind the user; write each @ of the password as %40$",
    ):
        locate("postgresql://me:p@ssw0rd@localhost/db")
    assert (
        locate("postgresql://me@corp:p%40ssw0rd@localhost/db").name
        == "postgresql://me%40corp:***@localhost/db"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["db", "import", "URL", "--db", "r.db"],
        ["db", "import", "URL", "--db", "r.db", "--json"],
        ["db", "import", "URL", "--db", "r.db", "--format", "table"],
        ["db", "merge", "URL", "--db", "r.db"],
        ["db", "merge", "r.db", "--db", "URL"],
        ["list", "--db", "URL"],
        ["show", "URL", "--db", "r.db"],
        ["list", "--db", "r.db", "URL"],
        ["db", "mark", "URL", "--tag", "x", "--db", "r.db"],
        ["db", "query", "URL", "--db", "r.db"],
    ],
)
@pytest.mark.parametrize(
    "url", ["postgresql://u:TOPSECRET@127.0.0.1:1/db", "postgresql://u:p@TOPSECRET@127.0.0.1:1/db"]
)
def test_no_command_shows_a_password(arguments, url, monkeypatch, capsys):
    fill("r.db", [(small(), 1.0)])
    words = [url if word == "URL" else word for word in arguments]
    ended = run_app(capsys, monkeypatch, *words)
    reported = ended.stdout + ended.stderr
    assert ended.exit_code in (1, 2)
    assert reported
    assert "TOPSECRET" not in reported


def test_a_server_that_is_not_there_is_reported(postgresql_server):
    with pytest.raises(
        StoreError,
        match=r"^postgresql://me:\*\*\*@localhost:1/db: .*; is the server there, and are user",
    ):
        Writer("postgresql://me:hunter2@localhost:1/db")
    with pytest.raises(StoreError, match="does not exist; is the server there"):
        Writer(postgresql_server.replace("/postgres?", "/nobody?"))


def test_a_server_without_its_driver_is_reported_with_what_adds_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"psycopg is not .* 'scalemark\[postgresql\]' adds it"):
        locate("postgresql://me@host/db")


@pytest.mark.parametrize("name", ["c%41.db", "a?b.db", "a#b.db", "a b.db", "ü;'.db"])
def test_a_file_is_written_under_the_name_it_is_read_by(name):
    fill(name, [(small(), 1.0)])
    assert Path(name).exists()
    assert {path.name.partition(".db")[0] for path in Path().iterdir()} == {
        name.removesuffix(".db")
    }
    assert len(list_attempts(open_for_reading(name))) == 1


@pytest.mark.parametrize(
    "url",
    ["postgresql:/me:hunter2@h/d", "me:hunter2@h/d", "host=h password=hunter2", "sqlite:r.db"],
)
def test_a_mistyped_url_is_no_name_of_a_file(url):
    with pytest.raises(StoreError, match="neither a file nor a URL") as caught:
        Writer(url)
    assert "hunter2" not in str(caught.value)
    assert list(Path().iterdir()) == []


def test_a_folder_that_is_not_there_is_not_made():
    with pytest.raises(StoreError, match="there is no folder nodir"):
        open_for_writing("nodir/r.db")
    assert not Path("nodir").exists()


def test_a_writer_goes_on_when_its_server_ended_its_connection(postgresql_url):
    with closing(Writer(postgresql_url)) as writer:
        ledger = begin(writer, {small(): 1})
        server = psycopg.connect(postgresql_url.replace("+psycopg", ""), autocommit=True)
        with server as connection:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            assert connection.execute(others).fetchall() == [(True,)]
        (repeat,) = ledger.open_repeats()
        assert ledger.claim(repeat) is ClaimResult.TAKEN


def test_steps_of_deleted_attempts_are_in_no_view(db):
    fill(db, [(small(), 1.0), (small(), 2.0)])
    with closing(Writer(db)) as writer, writing(writer.engine) as connection:
        connection.execute(sa.text("UPDATE attempts SET deleted_at = started_at WHERE id = 1"))
    for view in ("step_samples", "throughput"):
        assert query(open_for_reading(db), f"SELECT DISTINCT attempt_id FROM {view}")[1] == [(2,)]
    assert query(open_for_reading(db), "SELECT num_repeats, throughput FROM scaling")[1] == [
        (1, 2.0)
    ]

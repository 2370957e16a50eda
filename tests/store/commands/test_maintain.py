"""`python -m store backup|check|vacuum`, as a person or a script calls them."""

import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from scalemark.records.sweep import sweep_uid
from store import engine
from store.__main__ import app
from store.checks.every import check
from store.command_line import run
from store.database import open_for_reading, open_for_writing
from store.errors import StoreError
from store.exchange.bulk import add_all
from store.exchange.portable_rows import database_id
from store.reading import queries
from store.upkeep.backup import back_up, sha256_of
from store.upkeep.vacuum import compact
from store.writer import Writer
from tests.filled import MACHINE, NOON, PLACEMENT, SOFTWARE_KEY, attempt, begin, fill
from tests.portables import HEAD
from tests.portables import attempt as portable_attempt
from tests.specs import small
from tests.tables import changing, contents, opened


class Store:
    """The command line within this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[object, str, str]:
        """Exit code, stdout, stderr."""
        self._monkeypatch.setattr("sys.argv", ["store", *arguments])
        try:
            code: object = run(app, "store")
        except SystemExit as ended:
            code = ended.code
        return (code or 0, *self._capsys.readouterr())


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Store:
    return Store(monkeypatch, capsys)


def tree(path: Path | str = ".") -> dict[str, bytes]:
    return {
        found.name: found.read_bytes()
        for found in Path(path).iterdir()
        if not found.name.endswith((".lock", "-shm", "-wal"))
    }


def test_a_database_from_the_future_is_refused_and_left_as_it_is(store):
    fill("r.db", [(small(), 100.0)])
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute("UPDATE database_info SET value = '999' WHERE name = 'schema'")
    before = tree()
    for command in (["list"], ["check"], ["backup", "b.db"], ["vacuum"]):
        code, _, error = store(*command, "--db", "r.db")
        assert (code, error.startswith("store: r.db: written by a newer scalemark")) == (2, True), (
            command,
            error,
        )
    assert tree() == before


@pytest.mark.parametrize("db", ["sqlite"], indirect=True)
def test_a_backup_is_whole_while_a_sweep_writes(store, writer):
    ledger = begin(writer, {small(): 3}, rerun=True)
    for number, repeat in enumerate(ledger.open_repeats()):
        ledger.claim(repeat, NOON)
        ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ledger.finish(
            repeat.repeat_id, attempt(small(), 100.0 + number, repeat=repeat.repeat), NOON
        )
        code, reported, _ = store("backup", f"b{number}.db", "--db", "r.db")
        assert code == 0
        assert (
            reported
            == f"b{number}.db: {Path(f'b{number}.db').stat().st_size:,} bytes; SHA-256 in b{number}.db.sha256, which `sha256sum -c` and `store check` read\n"
        )
        assert list(check(f"b{number}.db")) == []
        (found,) = queries.rows(
            open_for_reading(f"b{number}.db"), "SELECT count(*) AS num FROM attempts"
        )
        assert found["num"] == number + 1
        assert (
            subprocess.run(
                ["sha256sum", "-c", f"b{number}.db.sha256"], capture_output=True
            ).returncode
            == 0
        )


def test_a_backup_is_of_one_moment_while_others_write(monkeypatch):
    fill("r.db", [(small(seed=seed), 100.0) for seed in range(1, 20)])
    monkeypatch.setattr("store.sqlite._PAGES_AT_ONCE", 5)
    steps: list[tuple[str, int, int]] = []

    def somebody_writes(*reported: object) -> None:
        steps.append(reported)
        assert len(steps) < 500
        with closing(sqlite3.connect("r.db")) as connection, connection:
            connection.execute(
                "INSERT INTO tags (sweep_id, tag, added_at) VALUES (1, 'later', '2026-11-21 12:00:00.000000')"
            )

    back_up("r.db", "b.db", progress=somebody_writes)
    assert len(steps) > 10
    assert queries.rows(open_for_reading("b.db"), "SELECT count(*) AS num FROM tags") == [
        {"num": 0}
    ]
    assert list(check("b.db")) == []


def test_a_backup_replaces_nothing_without_being_reported(store):
    fill("r.db", [(small(), 100.0)])
    Path("b.db").write_text("mine")
    assert store("backup", "b.db", "--db", "r.db") == (
        2,
        "",
        "store: b.db: exists; name another file, or give --force to replace it\n",
    )
    assert Path("b.db").read_text() == "mine"
    assert store("backup", "b.db", "--force", "--db", "r.db")[0] == 0
    assert list(check("b.db")) == []
    for out, message in (
        ("r.db", "r.db: the database itself; name another file for the copy"),
        ("nowhere/b.db", "nowhere/b.db: there is no folder nowhere; make it, or name another file"),
    ):
        assert store("backup", out, "--force", "--db", "r.db") == (2, "", f"store: {message}\n")
    assert (
        store("backup", "c.db", "--db", "none.db")[2]
        == "store: none.db: no such database, or an empty one; there is nothing to back up\n"
    )


@pytest.mark.parametrize("db", ["postgresql"], indirect=True)
def test_a_backup_of_a_servers_database_is_a_file_with_all_of_it(db):
    fill(db, [(small(seed=seed), 100.0 + seed) for seed in range(1, 5)])
    engine = open_for_writing(db)
    add_all(
        engine,
        [
            portable_attempt(
                sweep=replace(
                    HEAD,
                    uid=sweep_uid("imported", NOON, "sweep.py"),
                    name="imported",
                    origin="abc x.db",
                )
            )
        ],
    )
    engine.dispose()
    for force in (False, True):
        made = back_up(db, "b.db", force=force)
    assert list(check("b.db")) == []
    assert sha256_of(Path("b.db")) == made.sha256
    assert not Path("b.db.copy").exists()
    assert contents("b.db") == contents(db)
    assert {row["origin"] for row in contents("b.db")["sweeps"]} == {"", "abc x.db"}
    assert identity("b.db") == identity(db)


def identity(url: str) -> str:
    with opened(url) as connection:
        return database_id(connection)


@pytest.mark.parametrize("db", ["postgresql"], indirect=True)
def test_a_damaged_database_of_a_server_keeps_its_last_backup(db):
    fill(db, [(small(seed=seed), 100.0 + seed) for seed in range(1, 5)])
    made = back_up(db, "b.db")
    with changing(db) as connection:
        connection.execute(sa.text("UPDATE measurements SET window_s = -1 WHERE attempt_id = 2"))
    why = r"nothing was copied: 1 rows of it are damaged \(.* attempt 2: window_s=-1\.0: wanted 0 or more\); `python -m store check`"
    with pytest.raises(StoreError, match=why):
        back_up(db, "b.db", force=True)
    assert made.digest_path.read_text() == f"{made.sha256}  b.db\n"
    assert sha256_of(Path("b.db")) == made.sha256
    assert sorted(path.name for path in Path().glob("b.db*")) == ["b.db", "b.db.sha256"]


def test_a_backup_that_fails_leaves_the_one_before_with_its_digest():
    fill("r.db", [(small(seed=seed), 100.0) for seed in range(1, 30)])
    made = back_up("r.db", "b.db")
    content = bytearray(Path("r.db").read_bytes())
    content[45 * 4096 : 46 * 4096] = bytes(4096)
    Path("r.db").write_bytes(content)
    with pytest.raises(StoreError, match=r"^r\.db: damaged "):
        back_up("r.db", "b.db", force=True)
    assert made.digest_path.read_text() == f"{sha256_of(Path('b.db'))}  b.db\n"


def test_a_damaged_database_is_not_backed_up_and_leaves_nothing_behind(store):
    fill("r.db", [(small(seed=seed), 100.0) for seed in range(1, 30)])
    content = bytearray(Path("r.db").read_bytes())
    content[45 * 4096 : 46 * 4096] = bytes(4096)
    Path("r.db").write_bytes(content)
    code, _, error = store("backup", "b.db", "--db", "r.db")
    assert (code, error.startswith("store: r.db: damaged (")) == (2, True)
    assert not list(Path().glob("b.db*"))


def delete(sql: str) -> None:
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute(
            f"UPDATE attempts SET deleted_at = '2026-11-21 12:00:00.000000' WHERE {sql}"
        )


def test_vacuum_gives_space_back_and_tells_how_much(store):
    fill("r.db", [(small(seed=seed), 100.0) for seed in range(1, 40)])
    delete("1")
    code, reported, _ = store("vacuum", "--deleted", "--yes", "--db", "r.db")
    assert code == 0
    removed, sizes = reported.splitlines()
    assert removed == "r.db: 39 attempts removed for good"
    before, after = (int(word.replace(",", "")) for word in sizes.split() if word[0].isdecimal())
    assert (sizes.endswith("now"), before > after, after) == (
        True,
        True,
        Path("r.db").stat().st_size,
    )
    assert list(check("r.db")) == []


def test_what_was_deleted_is_removed_and_measured_again(
    store,
):
    fill("r.db", [(small(), 100.0), (small(), 101.0), (small(num_gpus=2), None)])
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute(
            "INSERT INTO tags (attempt_id, tag, added_at) VALUES (1, 'odd', '2026-11-21 12:00:00.000000'), (2, 'even', '2026-11-21 12:00:00.000000')"
        )
        connection.execute(
            "INSERT INTO notes (attempt_id, note, added_at) VALUES (1, 'the fan stood still', '2026-11-21 12:00:00.000000')"
        )
    delete("id IN (1, 3)")
    assert store("vacuum", "--deleted", "--yes", "--db", "r.db")[1].startswith(
        "r.db: 2 attempts removed for good\n"
    )
    reader = open_for_reading("r.db")
    for table, left in (
        ("attempts", 1),
        ("measurements", 1),
        ("step_arrays", 1),
        ("tags", 1),
        ("notes", 0),
        ("repeats", 3),
    ):
        assert queries.rows(reader, f"SELECT count(*) AS num FROM {table}") == [{"num": left}], (
            table
        )
    said = queries.rows(
        reader,
        "SELECT state, attempt FROM events WHERE detail = 'the attempt was removed for good' ORDER BY repeat_id",
    )
    assert said == [{"state": "completed", "attempt": 1}, {"state": "failed", "attempt": 1}]
    assert list(check("r.db")) == []
    writer = Writer("r.db")
    done = queries.num_completed(writer.engine, MACHINE.key, SOFTWARE_KEY)
    ledger = begin(
        writer, {small(): 2 - done[small().trial_id], small(num_gpus=2): 1}, wanted_repeats=2
    )
    opened = ledger.open_repeats()
    assert [(repeat.repeat, repeat.num_attempts) for repeat in opened] == [(3, 0), (1, 1)]
    for repeat in opened:
        spec = small() if repeat.repeat == 3 else small(num_gpus=2)
        ledger.claim(repeat, NOON)
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ledger.finish(
            repeat.repeat_id, attempt(spec, 90.0, repeat=repeat.repeat, number=number), NOON
        )
    ledger.end(NOON, finished=True)
    writer.close()
    assert list(check("r.db")) == []


def test_vacuum_removes_nothing_unasked_and_asks_only_a_person(store):
    fill("r.db", [(small(), 100.0)])
    assert store("vacuum", "--deleted", "--db", "r.db")[1].startswith(
        "r.db: nothing in it is deleted\n"
    )
    delete("1")
    reported = "store: 1 deleted attempt would be removed for good, and nobody is there to ask; say so with --yes\n"
    assert store("vacuum", "--deleted", "--db", "r.db") == (2, "", reported)
    assert queries.rows(open_for_reading("r.db"), "SELECT count(*) AS num FROM attempts") == [
        {"num": 1}
    ]


@pytest.mark.integration
@pytest.mark.parametrize(("typed", "code", "left"), [("n\n", 2, 1), ("y\n", 0, 0)])
def test_vacuum_does_what_a_person_at_a_terminal_answers(typed, code, left):
    fill("r.db", [(small(), 100.0)])
    delete("1")
    master, slave = pty.openpty()
    os.write(master, typed.encode())
    command = [sys.executable, "-m", "store", "vacuum", "--deleted", "--db", "r.db"]
    ended = subprocess.run(command, stdin=slave, capture_output=True, text=True)
    os.close(master)
    os.close(slave)
    assert "1 deleted attempt would be removed for good: do it?" in ended.stderr
    assert (ended.returncode, "store: nothing was changed" in ended.stderr) == (code, code == 2)
    assert queries.rows(open_for_reading("r.db"), "SELECT count(*) AS num FROM attempts") == [
        {"num": left}
    ]


@pytest.mark.parametrize("db", ["sqlite"], indirect=True)
def test_vacuum_waits_for_no_writer_for_ever(writer, monkeypatch):
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 0.01)
    with closing(sqlite3.connect("r.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreError, match=r"^r\.db: database is locked; another program kept it so"
        ):
            compact("r.db")
        connection.execute("ROLLBACK")
    compact("r.db")


WRONG = {
    "UPDATE trials SET curve = 'ffffffffffffffff' WHERE num_gpus = 1": (
        "trials",
        "its curve is ffffffffffffffff; its spec's is",
    ),
    "UPDATE trials SET spec = replace(spec, '\"seed\":1', '\"seed\": 1') WHERE num_gpus = 1": (
        "trials",
        "its spec is not canonical JSON",
    ),
    "UPDATE trials SET spec = replace(spec, '\"seed\":1', '\"seed\":77') WHERE num_gpus = 1": (
        "trials",
        "its id is not the hash of its spec",
    ),
    "UPDATE trials SET strategy = 'magic' WHERE num_gpus = 1": ("trials", "its strategy is magic"),
    "UPDATE trials SET precision = 'fp16' WHERE num_gpus = 1": (
        "trials",
        "columns differ from its spec: precision=fp16 (spec: fp32)",
    ),
    "DELETE FROM measurements WHERE attempt_id = 1": (
        "attempts",
        "completed, and without a measurement",
    ),
    "DELETE FROM step_arrays WHERE attempt_id = 1": (
        "measurements",
        "it has no steps; its measurement was made of 2",
    ),
    "UPDATE attempts SET outcome = 'hung' WHERE id = 2": (
        "repeats",
        "failed, but its last attempt is hung",
    ),
    "DELETE FROM attempts WHERE id = 2": ("repeats", "it has 0 attempts that ended; it counts 1"),
    "UPDATE machines SET cpu = 'Other'": ("machines", "its key is"),
    "UPDATE environments SET keras = '1.0'": (
        "environments",
        "its keras is 1.0; what it stands for gives 3.15.1",
    ),
    "UPDATE environments SET description = '{}'": (
        "environments",
        "description: makes no sense: KeyError: 'packages'",
    ),
    "UPDATE placements SET cores = '1'": ("placements", "its key is"),
    "UPDATE op_placements SET description = '{}'": ("op_placements", "its key is"),
    "UPDATE sweeps SET name = 'second'": ("sweeps", "its uid is"),
    "UPDATE sweeps SET started_at = 'yesterday'": (
        "sweeps",
        "cannot be read: ",
    ),
    "UPDATE attempts SET machine_id = 77 WHERE id = 1": (
        "attempts",
        "the row of machines that it names is not there",
    ),
    "DELETE FROM database_info WHERE name = 'id'": ("database_info", "it has no id"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "r.db"
    fill(str(path), [(small(), 100.0), (small(num_gpus=2), None)])
    assert list(check(str(path))) == []
    return path


@pytest.mark.integration
@pytest.mark.parametrize("sql", WRONG)
def test_check_finds_what_is_wrong_and_where(sound, sql):
    shutil.copy(sound, "r.db")
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute(sql)
    table, what = WRONG[sql]
    found = list(check("r.db"))
    assert any(finding.table == table and what in finding.what for finding in found), found
    assert all(finding.remedy for finding in found)


def test_check_counts_what_is_too_much_to_list():
    fill("r.db", [(small(seed=seed), 100.0) for seed in range(1, 60)])
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute("UPDATE trials SET strategy = 'magic'")
    found = list(check("r.db"))
    assert len(found) == 51
    assert found[-1].what == "9 more findings of this kind"

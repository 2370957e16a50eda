"""`python -m store backup|check`, as a person or a script calls them."""

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from store.__main__ import app
from store.checks import check
from store.command_line import run
from store.database import open_for_reading
from store.errors import StoreError
from store.reading import queries
from store.upkeep.backup import back_up, sha256_of
from tests.filled import NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small


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
    for command in (["list"], ["check"], ["backup", "b.db"]):
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


def test_a_backup_of_a_server_is_made_by_its_own_tool():
    why = r"postgresql://me:\*\*\*@h/x: a server's database; pg_dump makes its backup"
    with pytest.raises(StoreError, match=why):
        back_up("postgresql://me:secret@h/x", "b.db")


def test_a_backup_that_fails_leaves_the_one_before_with_its_digest():
    fill("r.db", [(small(seed=seed), 100.0) for seed in range(1, 30)])
    made = back_up("r.db", "b.db")
    content = bytearray(Path("r.db").read_bytes())
    content[-12 * 4096 : -11 * 4096] = bytes(4096)
    Path("r.db").write_bytes(content)
    with pytest.raises(StoreError, match=r"^r\.db: damaged "):
        back_up("r.db", "b.db", force=True)
    assert made.digest_path.read_text() == f"{sha256_of(Path('b.db'))}  b.db\n"


def test_a_damaged_database_is_not_backed_up_and_leaves_nothing_behind(store):
    fill("r.db", [(small(seed=seed), 100.0) for seed in range(1, 30)])
    content = bytearray(Path("r.db").read_bytes())
    content[-12 * 4096 : -11 * 4096] = bytes(4096)
    Path("r.db").write_bytes(content)
    code, _, error = store("backup", "b.db", "--db", "r.db")
    assert (code, error.startswith("store: r.db: damaged (")) == (2, True)
    assert not list(Path().glob("b.db*"))


WRONG = {
    "UPDATE trials SET curve = 'ffffffffffffffff' WHERE num_gpus = 1": (
        "trials",
        "columns differ from its spec: curve=ffffffffffffffff (spec: ",
    ),
    "UPDATE trials SET spec = replace(spec, '\"seed\":1', '\"seed\": 1') WHERE num_gpus = 1": (
        "trials",
        "its spec is not canonical JSON",
    ),
    "UPDATE trials SET spec = replace(spec, '\"seed\":1', '\"seed\":77') WHERE num_gpus = 1": (
        "trials",
        "its id is not the hash of its spec",
    ),
    "UPDATE trials SET strategy = 'magic' WHERE num_gpus = 1": (
        "trials",
        "columns differ from its spec: strategy=magic (spec: ",
    ),
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
        connection.execute("PRAGMA ignore_check_constraints = ON")  # as a bad disk does
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

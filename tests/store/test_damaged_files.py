"""Every command that opens a damaged database says in one message which file, what was found and what to do."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest
import sqlalchemy as sa

from store.database import open_for_writing, writing
from store.errors import LostDatabaseError, StoreError
from store.writer import Writer
from tests.app import Ended, run_app
from tests.conftest import PROJECT
from tests.filled import fill
from tests.specs import small

pytestmark = pytest.mark.integration

PAGE_BYTES = 4096

COMMANDS: dict[str, tuple[str, ...]] = {
    "list": ("list",),
    "show": ("show", "1"),
    "query": ("db", "query", "SELECT * FROM attempts"),
    "tag": ("db", "mark", "1", "--tag", "good"),
    "delete": ("db", "mark", "first", "--delete"),
    "restore": ("db", "mark", "first", "--restore"),
    "import": ("db", "import", "in.csv"),
    "merge": ("db", "merge", "other.db"),
    "check": ("db", "check"),
    "advise": ("advise",),
    "compare": ("compare", "strategy=ps_cpu", "strategy=replicated_nccl"),
    "conclusions": ("conclusions",),
    "explain": ("explain",),
    "predict": ("predict", "--to", "num_gpus=4"),
    "scaling": ("scaling",),
    "table": ("table",),
    "chart": ("chart",),
    "report": ("report",),
}


def first_page(change: Callable[[bytearray], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)

    return damage


def noise(begin: int, end: int | None = None, seed: int = 7) -> Callable[[Path], None]:
    def change(content: bytearray) -> None:
        last = len(content) if end is None else end
        content[begin:last] = random.Random(seed).randbytes(last - begin)

    return first_page(change)


def cut(num_bytes: int) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(path.read_bytes()[:num_bytes])


def run_sql(*statements: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                connection.execute(statement)

    return damage


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


VERSION = "database_info SET value"

DAMAGES: dict[str, Callable[[Path], None]] = {
    "no page of a tree": first_page(
        lambda content: content.__setitem__(slice(100, 108), b"\x00" * 8)
    ),
    "the schema is noise": noise(100, PAGE_BYTES),
    "the schema is other noise": noise(108, PAGE_BYTES, seed=8),
    "the header alone is whole": noise(100),
    "the header is noise": noise(16, 100),
    "all but the first page is noise": noise(PAGE_BYTES),
    "a page in the middle is noise": noise(40 * PAGE_BYTES, 40 * PAGE_BYTES + 400),
    "all is noise": noise(0),
    "cut to 50 bytes": cut(50),
    "cut to 100 bytes": cut(100),
    "cut to a page": cut(PAGE_BYTES),
    "cut in the middle": lambda path: path.write_bytes(
        path.read_bytes()[: path.stat().st_size // 2]
    ),
    "zeros": first_page(lambda content: content.__setitem__(slice(0, None), bytes(len(content)))),
    "names of tables are no text": run_sql(
        "UPDATE sqlite_master SET name = CAST(x'ff80' AS TEXT) WHERE name = 'tags'"
    ),
    "names of tables are null": run_sql("UPDATE sqlite_master SET name = NULL WHERE name = 'tags'"),
    "names of tables are numbers": run_sql(
        "UPDATE sqlite_master SET name = 5, tbl_name = 5 WHERE name = 'tags'"
    ),
    "definitions are no SQL": run_sql(
        "UPDATE sqlite_master SET sql = 'nonsense' WHERE name = 'attempts'"
    ),
    "no version": run_sql("DELETE FROM database_info"),
    "the version is no text": run_sql(f"UPDATE {VERSION} = CAST(x'ff80' AS TEXT)"),
    "the version is unknown": run_sql("UPDATE database_info SET value = '0000'"),
    "no column of versions": run_sql("ALTER TABLE database_info RENAME COLUMN value TO other"),
    "no table of versions": run_sql("DROP TABLE database_info"),
    "no attempts": run_sql("DELETE FROM sqlite_master WHERE name = 'attempts'"),
    "no sweeps": run_sql("DELETE FROM sqlite_master WHERE name = 'sweeps'"),
    "the table of attempts was dropped": run_sql("DROP TABLE attempts"),
    "the table of sweeps was dropped": run_sql("DROP TABLE sweeps"),
    "the table of measurements was dropped": run_sql("DROP TABLE measurements"),
    "text": lambda path: path.write_text("a letter to somebody, which is no database\n" * 200),
    "a folder": a_folder,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "r.db"
    fill(str(path), [(small(), 10.0), (small(num_gpus=2), 18.0)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # all is in the one file
    return path.read_bytes()


@pytest.fixture
def damaged(
    request: pytest.FixtureRequest, whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "r.db"
    path.write_bytes(whole)
    DAMAGES[request.param](path)
    Path("in.csv").write_text("num_gpus,throughput\n1,5\n")
    Path("other.db").write_bytes(whole)
    return path


class Run(Protocol):
    def __call__(self, name: str, db: str = "r.db") -> Ended: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def of(name: str, db: str = "r.db") -> Ended:
        return run_app(capsys, monkeypatch, *COMMANDS[name], "--db", db)

    return of


REMEDY = re.compile(r"restore a backup|db rebuild|a database is a file")
ONLY_SEEN_BY_SOME = {"all but the first page is noise", "a page in the middle is noise"}
"""Damages of what not every command reads."""


@pytest.mark.parametrize("damaged", DAMAGES, indirect=True)
def test_a_damaged_file_is_named_with_what_to_do(
    damaged: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    is_seen_by_all = request.node.callspec.params["damaged"] not in ONLY_SEEN_BY_SOME
    for name in COMMANDS:
        ended = run(name)
        reported = ended.stdout + ended.stderr
        if ended.exit_code == 0:
            assert not is_seen_by_all, (name, reported)
            assert name != "check", reported
            continue
        if name == "predict" and not is_seen_by_all:
            continue  # it refuses CPU devices first
        assert "r.db: " in reported, (name, reported)
        assert REMEDY.search(reported), (name, reported)


@pytest.mark.parametrize("damaged", DAMAGES, indirect=True)
def test_a_sweep_on_a_damaged_file_is_refused(damaged: Path) -> None:
    with pytest.raises(StoreError, match=r"r\.db: ") as refused:
        Writer("r.db").close()
    assert REMEDY.search(str(refused.value))


@pytest.fixture
def nobody(whole: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a database, as somebody without rights sees them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        monkeypatch.chdir(folder)
        Path("in.csv").write_text("num_gpus,throughput\n1,5\n")
        Path("other.db").write_bytes(whole)
        Path("r.db").write_bytes(whole)
        Path("closed").mkdir()
        Path("closed/r.db").write_bytes(whole)
        Path("r.db").chmod(0o000)
        Path("closed").chmod(0o000)
        before = os.geteuid()
        os.seteuid(65534 if before == 0 else before)
        try:
            if not os.access(PROJECT / "store", os.R_OK | os.X_OK, effective_ids=True):
                pytest.skip(f"{PROJECT} cannot be read by whoever has no rights")
            yield folder
        finally:
            os.seteuid(before)
            Path("closed").chmod(0o700)


@pytest.mark.parametrize("db", ["r.db", "closed/r.db"])
def test_a_file_without_permission_is_named(nobody: Path, run: Run, db: str) -> None:
    for name in COMMANDS:
        ended = run(name, db)
        assert ended.exit_code == 2, (name, ended)
        assert f"{db}: " in ended.stderr, (name, ended.stderr)
        assert "choose another" in ended.stderr, (name, ended.stderr)
    with pytest.raises(StoreError, match=f"{db}: .*choose another"):
        Writer(db).close()


def test_a_file_that_cannot_be_looked_at_just_now_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where no file descriptor is left: a sweep waits for better, and gives up only for damage."""
    engine = open_for_writing("r.db")
    with writing(engine) as connection:
        connection.execute(sa.text("UPDATE sweeps SET reason = ''"))
    os.utime("r.db", ns=(0, 0))  # written by somebody else

    def fail(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    with monkeypatch.context() as broken:
        broken.setattr("store.sqlite.sqlite3.connect", fail)
        with (
            pytest.raises(StoreError, match="unable to open database file") as raised,
            writing(engine),
        ):
            pass
    assert not isinstance(raised.value, LostDatabaseError)
    engine.dispose()


def test_a_file_that_is_cut_off_right_after_the_last_commit_is_lost() -> None:
    """A bug: a file of 0 bytes was new to SQLite, and the sweep ended as if all were well."""
    writer = Writer("r.db")
    writer.settle()

    def cut_off(*_: object) -> None:
        os.truncate("r.db", 0)

    sa.event.listen(writer.engine, "checkin", cut_off, insert=True)
    with writing(writer.engine) as connection:
        connection.execute(sa.text("UPDATE sweeps SET reason = ''"))
    sa.event.remove(writer.engine, "checkin", cut_off)
    with pytest.raises(LostDatabaseError, match=r"r\.db: "):
        writer.settle()
    writer.close()


def test_a_file_system_that_refuses_locks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"r\.db\.lock: cannot be locked .*No locks available"):
        Writer("r.db")


def test_a_file_with_two_names_is_not_written() -> None:
    Writer("r.db").close()
    os.link("r.db", "other.db")
    for name in ("r.db", "other.db"):
        with pytest.raises(StoreError, match=rf"{name}: .*hard links.*choose another"):
            Writer(name)
    Path("other.db").unlink()
    Writer("r.db").close()


@pytest.mark.parametrize("name", ["list", "check", "table", "advise"])
def test_a_fifo_or_a_device_is_no_database(run: Run, name: str) -> None:
    os.mkfifo("fifo.db")
    for db in ("fifo.db", "/dev/null"):
        ended = run(name, db)
        assert ended.exit_code == 2
        assert f"{db}: a FIFO or a device, wanted a file; choose another file with" in ended.stderr
    assert not Path("fifo.db.lock").exists()


CELLS = (
    "attempts SET started_at = 'yesterday'",
    "attempts SET started_at = 5",
    "attempts SET duration_s = 'long'",
    "attempts SET duration_s = x'ff'",
    "attempts SET shares_host = 'maybe'",
    "attempts SET repeat = 'one' WHERE id = 1",
    "attempts SET exit_code = 'bad'",
    "attempts SET outcome = x'ff80'",
    "attempts SET message = x'ff80'",
    "measurements SET throughput = 'fast'",
    "measurements SET throughput_low = 'low'",
    "measurements SET throughput_high = x'00'",
    "measurements SET mfu = 'half'",
    "measurements SET steady = 'yes'",
    "measurements SET verdict_reasons = 'no list'",
    "measurements SET verdict_reasons = '{}'",
    "measurements SET gpu_telemetry = '5'",
    "measurements SET num_steps = 'two'",
    "measurements SET item = x'ff'",
    "environments SET description = 'no object'",
    "environments SET description = '[]'",
    "sweeps SET started_at = 'never'",
    "machines SET num_gpus = 'none'",
    "step_arrays SET duration_over_least = '[1, '",
    "trials SET num_gpus = 'many'",
    "trials SET batch_size = 'big'",
    "trials SET spec = 'nonsense'",
)
"""Cells of another type, or without sense."""


@pytest.fixture
def database(whole: bytes) -> Path:
    Path("r.db").write_bytes(whole)
    Path("in.csv").write_text("num_gpus,throughput\n1,5\n")
    Path("other.db").write_bytes(whole)
    return Path("r.db")


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE {sql}")


@pytest.mark.parametrize("cell", CELLS)
def test_a_senseless_cell_is_refused_or_named_by_check_and_ends_no_command_in_a_traceback(
    database: Path, run: Run, cell: str
) -> None:
    """A cell of another type is refused even where another program switches checks off."""
    try:
        change(database, cell)
    except sqlite3.IntegrityError:
        return
    table = cell.split(" ")[0]
    ended = run("check")
    assert ended.exit_code == 1, ended
    assert table in ended.stdout
    for name in COMMANDS:
        ended = run(name)  # an exception would fail the test
        assert ended.exit_code in (0, 1, 2), (name, ended)
        if ended.exit_code == 2 and "damaged" in ended.stderr:
            assert "r.db: " in ended.stderr, (name, ended.stderr)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if not cell.startswith("trials SET spec")])
def test_a_new_database_refuses_a_cell_of_another_type(whole: bytes, cell: str) -> None:
    Path("r.db").write_bytes(whole)
    with (
        closing(sqlite3.connect("r.db")) as connection,
        pytest.raises(sqlite3.IntegrityError, match=r"constraint failed|cannot store"),
    ):
        connection.execute(f"UPDATE {cell}")

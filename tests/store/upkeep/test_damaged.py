"""Files that a disk or a copy damaged: `check` finds it, and `--salvage` gets back what can be read."""

import json
import random
import re
import shutil
import sqlite3
import statistics
from contextlib import closing
from pathlib import Path

import pytest

from store.__main__ import app
from store.checks.every import check
from store.command_line import run
from store.errors import StoreError
from store.sqlite import connect_read_only, migrate
from store.upgrade import head_revision
from store.upkeep.backup import back_up
from store.upkeep.salvage import Saved, salvage
from store.writer import Writer
from tests.filled import fill
from tests.specs import small

pytestmark = pytest.mark.integration

NUM_TRIALS, PAGE_BYTES = 150, 4096
Dump = dict[str, dict[str, list[object]]]

UNSEEN = {  # what is stored once, and nothing else in the database tells: only the SHA-256 of a backup shows that a bit of it flipped
    "attempts": {
        "message",
        "exit_code",
        "run_dir",
        "started_at",
        "duration_s",
        "shares_host",
        "deleted_at",
        "machine_id",
        "repeat",
    },
    "events": {"at_unix_us", "attempt", "state", "detail"},
    "left_out": {"overrides", "reason"},
    "orchestrators": {
        "software_key",
        "shares_host",
        "host",
        "boot_id",
        "pid_namespace",
        "pid",
        "start_ticks",
        "started_at",
        "heartbeat_at",
        "ended_at",
    },
    "repeats": {"reason", "started_at", "run_dir", "pid", "start_ticks"},
    "sweep_trials": {"position"},
    "sweeps": {"reason", "run_dir", "origin", "finished_at"},
    "database_info": {"value"},
}
ALL_UNSEEN = ("measurements", "step_arrays")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "r.db"
    fill(
        str(path),
        [
            (small(seed=1 + seed), None if seed % 7 == 0 else 100.0 + seed)
            for seed in range(NUM_TRIALS)
        ],
    )
    return path


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "r.db"
    migrate(path, head_revision())
    return path


@pytest.fixture
def migrated_before(migrated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many are salvaged, what is saved goes into copies of one database: migrations take most of the time."""

    def copy(path: Path, to: str) -> None:
        assert to == head_revision()
        shutil.copy(migrated, path)

    monkeypatch.setattr("store.upkeep.salvage.migrate", copy)


def dump(path: str | Path) -> Dump:
    """Table -> column -> its values, in the order of rows."""
    with closing(connect_read_only(Path(path))) as connection:
        connection.text_factory = bytes
        tables = [
            name.decode()
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found: Dump = {}
        for table in tables:
            cursor = connection.execute(f"SELECT * FROM {table}")
            columns = list(zip(*cursor, strict=True)) or [()] * len(cursor.description)
            found[table] = {
                name[0]: list(values)
                for name, values in zip(cursor.description, columns, strict=True)
            }
        return found


def num_rows(found: Dump) -> int:
    return sum(len(next(iter(columns.values()))) for columns in found.values())


def changes(before: Dump, after: Dump) -> set[tuple[str, str]]:
    return {
        (table, column)
        for table, columns in before.items()
        for column in columns
        if after[table][column] != columns[column]
    }


def is_found(path: str = "d.db") -> bool:
    try:
        return bool(list(check(path)))
    except StoreError:
        return True


def damage(whole: Path, change: dict[int, int]) -> None:
    """A copy as d.db, with the bits at these places flipped that are set in the masks."""
    content = bytearray(whole.read_bytes())
    for at, mask in change.items():
        content[at] ^= mask
    Path("d.db").write_bytes(content)


def is_in_use(whole: Path, at: int) -> bool:
    """Of what is found in a file some is left over from before."""
    damage(whole, {at: 1})
    return is_found()


def share_saved(saved: Saved, whole: Path) -> float:
    return sum(table.num_saved for table in saved.tables) / (
        num_rows(dump(whole)) - 1
    )  # alembic_version is made anew


def test_a_whole_database_has_no_findings_and_is_salvaged_whole(whole):
    assert list(check(str(whole))) == []
    saved = salvage(str(whole), "s.db")
    assert {table.lost for table in saved.tables} == {"none"}
    assert (share_saved(saved, whole), saved.num_findings) == (1.0, 0)
    assert dump("s.db") == dump(whole)


@pytest.mark.usefixtures("migrated_before")
@pytest.mark.parametrize("where", ["header", "heads_of_pages", "anywhere", "schema"])
def test_a_flipped_bit_is_found_or_stands_where_nothing_else_tells_of_it(whole, where):
    """And almost everything is got back; what a page of sweeps or machines costs is more, because all attempts belong to them."""
    chance, size, before = random.Random(where), whole.stat().st_size, dump(whole)
    num_pages = size // PAGE_BYTES
    definitions = re.finditer(b'CREATE TABLE "?attempts"? ', whole.read_bytes())
    schema = next(at.start() for at in definitions if is_in_use(whole, at.start()))
    places = {
        "header": lambda: chance.randrange(100),
        "heads_of_pages": lambda: (
            PAGE_BYTES * chance.randrange(1, num_pages) + chance.randrange(60)
        ),
        "anywhere": lambda: chance.randrange(size),
        "schema": lambda: schema + chance.randrange(400),
    }
    shares = []
    for _ in range(10):
        Path("s.db").unlink(missing_ok=True)
        at, mask = places[where](), 1 << chance.randrange(8)
        damage(whole, {at: mask})
        if is_found():
            shares.append(share_saved(salvage("d.db", "s.db"), whole))
        else:
            unseen = {
                (table, column)
                for table, column in changes(before, dump("d.db"))
                if table not in ALL_UNSEEN
            }
            assert all(column in UNSEEN.get(table, ()) for table, column in unseen), (
                at,
                mask,
                unseen,
            )
    assert len(shares) >= (
        1 if where == "header" else 4
    )  # many bits of a header mean nothing, and pages hold values
    assert statistics.median(shares) > 0.98
    assert min(shares) > 0.3


@pytest.mark.usefixtures("migrated_before")
@pytest.mark.parametrize("at", range(100, 112))
def test_rows_are_found_without_the_list_of_tables(whole, at):
    damage(whole, {at: 1 << at % 8})
    assert is_found() or dump("d.db") == dump(whole)
    assert share_saved(salvage("d.db", "s.db"), whole) > 0.98


@pytest.mark.usefixtures("migrated_before")
@pytest.mark.parametrize("share", [0.999, 0.9, 0.7, 0.5, 0.3, 0.1])
def test_a_truncated_file_is_found_and_its_beginning_is_saved(whole, share):
    content = whole.read_bytes()
    content = content[: int(len(content) * share)]
    Path("d.db").write_bytes(content)
    assert is_found()
    saved = salvage("d.db", "s.db")
    by_name = {table.name: table for table in saved.tables}
    assert all(table.lost != "none" or not table.error for table in saved.tables)
    assert list(check("s.db")) == [] or saved.num_findings > 0
    num_whole = sum(
        content.count(small(seed=1 + seed).to_json().encode()) > 0 for seed in range(NUM_TRIALS)
    )
    assert (
        num_whole - 12 <= by_name["trials"].num_saved <= num_whole
    )  # 12: of a page that is cut through


@pytest.mark.parametrize("size", [1, 50, 99, 512, 4095])
def test_of_less_than_a_page_nothing_is_saved_and_that_is_said(whole, size):
    Path("d.db").write_bytes(whole.read_bytes()[:size])
    assert is_found()
    with pytest.raises(
        StoreError, match="nothing can be read: not one row of a database of scalemark is in it"
    ):
        salvage("d.db", "s.db")
    assert not list(Path().glob("s.db*"))


def test_a_page_of_zeros_in_the_middle_costs_the_rows_on_it_and_those_that_hang_on_them(whole):
    content = bytearray(whole.read_bytes())
    at = content.find(b'"seed":70,') // PAGE_BYTES * PAGE_BYTES
    content[at : at + PAGE_BYTES] = bytes(PAGE_BYTES)
    Path("d.db").write_bytes(content)
    assert is_found()
    saved = salvage("d.db", "s.db")
    by_name = {table.name: table for table in saved.tables}
    trials = by_name["trials"]
    assert 0 < NUM_TRIALS - trials.num_saved < 10
    assert trials.lost == str(NUM_TRIALS - trials.num_saved)  # an index knows how many there were
    assert by_name["attempts"].num_saved == trials.num_saved
    assert {finding.what for finding in by_name["attempts"].left_out} == {
        "what it belongs to is lost"
    }
    lines = list(saved.told())
    assert (
        f"trials: {trials.num_saved} rows saved, 0 left out, {trials.lost} could not be read (database disk image is malformed)"
        in lines
    )
    assert lines[-1] == "s.db: made of what could be read"
    assert list(check("s.db")) == []


def test_the_log_of_a_database_in_use_is_checked_too(whole):
    shutil.copy(whole, "r.db")
    writer = Writer("r.db")
    fill("r.db", [(small(seed=1000), 5.0)], name="second")
    assert list(check("r.db")) == []
    content = Path("r.db-wal").read_bytes()
    assert len(content) > 10 * PAGE_BYTES
    chance, num_found = random.Random(1), 0
    shutil.copy("r.db", "d.db")
    Path("d.db-wal").write_bytes(content)
    before = dump("d.db")
    for at in [0, 9, 17, 25, *(chance.randrange(len(content)) for _ in range(8))]:
        Path("d.db-shm").unlink()
        flipped = bytearray(content)
        flipped[at] ^= 1 << chance.randrange(8)
        Path("d.db-wal").write_bytes(flipped)
        num_found += is_found()
        assert is_found() or dump("d.db") == before, at
    assert num_found >= 8
    writer.close()


def test_every_flipped_bit_of_a_backup_is_found(whole):
    back_up(str(whole), "d.db")
    assert list(check("d.db")) == []
    content, chance = Path("d.db").read_bytes(), random.Random(1)
    for _ in range(5):
        flipped = bytearray(content)
        flipped[chance.randrange(PAGE_BYTES, len(content))] ^= 1 << chance.randrange(8)
        Path("d.db").write_bytes(flipped)
        assert (
            next(iter(check("d.db"))).what
            == "not the file that was backed up: its SHA-256 is another"
        )


def test_what_cannot_be_a_database_of_ours_is_refused_with_a_word(monkeypatch, capsys):
    Path("text.db").write_text("images per second: 100\n" * 500)
    with closing(sqlite3.connect("other.db")) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
    for name, message in (
        (
            "text.db",
            "text.db: file is not a database; choose another with store.url=FILE or --db FILE, or, if it was one, "
            "it is damaged: restore a backup, make it anew with `python -m store rebuild RUNS`, "
            "or save what can be read with `python -m store check --salvage OUT`",
        ),
        ("other.db", "other.db: a database of another program (it has cats); name another file"),
        ("none.db", "none.db: no such database, or an empty one; there is nothing to check"),
    ):
        monkeypatch.setattr("sys.argv", ["store", "check", "--db", name])
        assert run(app, "store") == 2
        assert capsys.readouterr().err == f"store: {message}\n"
    with pytest.raises(StoreError, match="nothing can be read"):
        salvage("text.db", "s.db")
    with pytest.raises(StoreError, match="not one row of a database of scalemark"):
        salvage("other.db", "s.db")
    assert not list(Path().glob("s.db*"))


def test_check_tells_findings_as_text_and_as_json_and_salvages(whole, monkeypatch, capsys):
    shutil.copy(whole, "d.db")
    with closing(sqlite3.connect("d.db")) as connection, connection:
        connection.execute("UPDATE trials SET batch_size = 3 WHERE seed = 5")

    def exit_code(*arguments: str) -> object:
        monkeypatch.setattr("sys.argv", ["store", "check", "--db", "d.db", *arguments])
        with pytest.raises(SystemExit) as ended:
            run(app, "store")
        return ended.value.code

    assert exit_code() == 1
    told = capsys.readouterr().out
    assert told.startswith(
        f"trials {small(seed=5).trial_id}: columns differ from its spec: batch_size=3 (spec: 2); no scalemark writes this"
    )
    assert exit_code("--json") == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["table"], finding["row"]) == ("trials", small(seed=5).trial_id)
    assert exit_code("--salvage", "s.db") == 1
    assert (
        f"trials: {NUM_TRIALS} rows saved, 0 left out, none could not be read"
        in capsys.readouterr().out
    )
    with pytest.raises(StoreError, match=r"^s\.db: exists; name a new file"):
        salvage("d.db", "s.db")

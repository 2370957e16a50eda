"""`scalemark db check`, and copies of a database that is in use."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from store.checks import check
from store.database import open_for_reading
from store.reading import queries
from store.sqlite import copy_whole
from tests.app import run_app
from tests.filled import fill
from tests.specs import small


class Store:
    """The command line within this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[object, str, str]:
        """Exit code, stdout, stderr."""
        ended = run_app(self._capsys, self._monkeypatch, *arguments)
        return (ended.exit_code, ended.stdout, ended.stderr)


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
    for command in (["list"], ["db", "check"]):
        code, _, error = store(*command, "--db", "r.db")
        assert (
            code,
            error.startswith(f"{' '.join(command)}: r.db: written by a newer scalemark"),
        ) == (
            2,
            True,
        ), (
            command,
            error,
        )
    assert tree() == before


def test_a_copy_is_of_one_moment_while_others_write(monkeypatch):
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

    copy_whole(Path("r.db"), Path("b.db"), progress=somebody_writes)
    assert len(steps) > 10
    assert queries.rows(open_for_reading("b.db"), "SELECT count(*) AS num FROM tags") == [
        {"num": 0}
    ]
    assert list(check("b.db")) == []


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
    "UPDATE sweeps SET started_at = 'yesterday'": ("sweeps", "cannot be read: "),
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


def test_trials_with_axes_that_are_gone_are_kept_and_not_called_damaged(store):
    """A bug: every trial of a database with a column of such an axis was called damaged."""
    fill("results.db", [(small(), 100.0), (small(num_gpus=2), 190.0)])
    with closing(sqlite3.connect("results.db")) as connection, connection:
        connection.execute("ALTER TABLE trials ADD COLUMN onednn TEXT NOT NULL DEFAULT 'auto'")
        with_axis = "json_set(spec, '$.onednn', 'off')"
        connection.execute(f"UPDATE trials SET onednn = 'off', spec = {with_axis} WHERE num_gpus=2")
    assert list(check("results.db")) == []
    listed = store("list")[1]
    assert "onednn" not in listed
    assert len(listed.splitlines()) == 3
    fill("results.db", [(small(num_gpus=4), 370.0)], name="later")
    assert len(store("list")[1].splitlines()) == 4

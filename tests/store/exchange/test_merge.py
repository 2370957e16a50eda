"""Databases are merged without loss and without doubles; what cannot be merged is refused, and no conflict is silent."""

import shutil
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from scalemark.records.measurement import Outcome, ReplicaTimes
from store.checks import check
from store.errors import StoreError
from store.merge import Merged, merge
from store.writer import Writer
from tests.empty import make_empty
from tests.filled import NOON, PLACEMENT, TWO_GPUS, attempt, begin, fill
from tests.ran import ran
from tests.specs import small
from tests.tables import contents

ALL = "sweeps.origin"  # which tells where rows are from


def changed(db: str, *statements: str) -> None:
    with closing(sqlite3.connect(db)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def cell(db: str, sql: str) -> object:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(sql).fetchone()[0]


def make_rich(db: str = "a.db") -> str:
    """Two sweeps with retries, a failure, GPUs, free axes, tags, a deleted attempt, a repeat that waits, a reference."""
    make_empty(db)
    writer = Writer(db)
    retried, waiting = small(free=(("axes.zero", 2),)), small(seed=9)
    ledger = begin(writer, {retried: 1, waiting: 2}, name="first")
    for number, throughput in ((1, None), (2, 101.5)):
        first, *_ = ledger.open_repeats()
        ledger.claim(first)
        ledger.run(first, "/runs/first/x", PLACEMENT, NOON)
        ended = attempt(retried, throughput, number=number, outcome=Outcome.INTERRUPTED)
        ended = replace(ended, run_dir="/runs/first/x")
        ledger.finish(first.repeat_id, ended, again=throughput is None)
    writer.close()
    times = ReplicaTimes(at_once=True, seconds={"GPU:0": (0.25, 0.5)})
    fill(db, [(small(num_gpus=2), 222.25), (small(seed=3), None)], name="second", machine=TWO_GPUS, details=[{"replica_times": times}, {}])  # fmt: skip
    changed(
        db,
        "INSERT INTO tags (sweep_id, tag, added_at) VALUES (1, 'good', '2026-11-21 12:00:00.000000')",
        "INSERT INTO tags (attempt_id, tag, added_at) VALUES (2, 'odd', '2026-11-21 12:00:00.000000')",
        "UPDATE attempts SET deleted_at = '2026-11-21 12:00:00.000000' WHERE id = 3",
        "INSERT INTO reference_results SELECT NULL, 'e989d25e4a03798e', 'table', 'mine.csv', '', '?', 'm', NULL, '', '', '', '', '', 1, 5.0, '', '', "
        "'images', NULL, '{}', '', 1",
    )
    return db


def test_a_database_that_is_merged_into_an_empty_one_is_equal():
    make_rich()
    merged = merge("new.db", ["a.db"])
    assert (merged.num_new, merged.num_known, merged.num_references) == (4, 0, 1)
    assert contents("new.db", ALL) == contents("a.db", ALL)
    (origin,) = {row["origin"] for row in contents("new.db")["sweeps"]}
    assert origin.endswith(" a.db")
    assert list(check("new.db")) == []


def test_notes_of_an_earlier_version_do_no_harm_and_stay_where_they_are():
    fill("a.db", [(small(), 100.0)])
    changed(
        "a.db",
        "CREATE TABLE notes (note TEXT NOT NULL, id INTEGER PRIMARY KEY, attempt_id INTEGER REFERENCES attempts (id))",
        "INSERT INTO notes (note, attempt_id) VALUES ('fan was broken', 1)",
    )
    assert merge("b.db", ["a.db"]).num_new == merge("a.db", ["b.db"]).num_known == 1
    assert [*check("a.db"), *check("b.db")] == []
    assert cell("a.db", "SELECT note FROM notes") == "fan was broken"


def test_ids_are_mapped_where_both_have_rows():
    make_rich()
    fill("b.db", [(small(seed=50), 50.0), (small(num_gpus=2), 60.0)], name="other")
    before = contents("b.db")
    merge("b.db", ["a.db"])
    after = contents("b.db")
    assert len(after["attempts"]) == 6
    assert len(after["machines"]) == 2
    for table, rows in before.items():
        assert all(row in after[table] for row in rows), table
    merged = contents("b.db", ALL)
    for table, rows in contents("a.db", ALL).items():
        assert all(row in merged[table] for row in rows), table
    assert list(check("b.db")) == []


def test_merging_again_changes_nothing():
    make_rich()
    merge("b.db", ["a.db"])
    before = contents("b.db")
    assert merge("b.db", ["a.db", "a.db"]) == Merged(num_known=8)
    assert contents("b.db") == before
    assert merge("a.db", ["b.db"]) == Merged(num_known=4)
    assert [row["origin"] for row in contents("a.db")["sweeps"]] == ["", ""]


def lose_sweeps(db: str) -> None:
    tables = ("step_arrays", "measurements", "attempts", "repeats", "sweep_trials")
    tables += ("left_out", "orchestrators", "sweeps")
    changed(db, *(f"DELETE FROM {table}" for table in tables))


def test_origins_are_kept_and_what_comes_home_is_at_home():
    fill("a.db", [(small(), 100.0)], name="of a")
    merge("b.db", ["a.db"])
    merge("c.db", ["b.db"])
    assert contents("c.db")["sweeps"][0]["origin"].endswith(" a.db")
    lose_sweeps("a.db")
    assert merge("a.db", ["c.db"]).num_new == 1
    assert contents("a.db")["sweeps"][0]["origin"] == ""


def test_a_sweep_of_the_name_of_another_is_renamed_and_that_is_said():
    fill("a.db", [(small(), 100.0)])
    fill("b.db", [(small(seed=2), 50.0)])
    changed("b.db", "UPDATE sweeps SET uid = 'aaaaaaaaaaaaaaaa', command = ''")
    assert merge("a.db", ["b.db"]).renamed == {"first": "first (2)"}
    assert merge("a.db", ["b.db"]).renamed == {}


def test_a_renamed_sweep_is_sound_when_it_comes_home():
    fill("a.db", [(small(), 100.0)])
    fill("b.db", [(small(seed=2), 50.0)])
    changed("b.db", "UPDATE sweeps SET uid = 'aaaaaaaaaaaaaaaa', command = ''")
    merge("b.db", ["a.db"])
    lose_sweeps("a.db")
    merge("a.db", ["b.db"])
    sweeps = [(row["name"], row["origin"] == "") for row in contents("a.db")["sweeps"]]
    assert ("first (2)", True) in sweeps
    assert list(check("a.db")) == []


def twins() -> None:
    fill("a.db", [(small(), 100.0)])
    shutil.copy("a.db", "b.db")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE measurements SET throughput = 99", "differs in throughput from what is here, which stays"),
        ("UPDATE attempts SET exit_code = 9, message = 'x'", "differs in message and exit_code from what is here, which stays"),
        ("UPDATE measurements SET verdict = NULL", "differs in verdict from what is here, which stays"),
    ],
)  # fmt: skip
def test_the_loser_of_a_conflict_is_named_and_nothing_of_it_is_taken(change, why):
    twins()
    changed(
        "b.db",
        change,
        "INSERT INTO tags (attempt_id, tag, added_at) VALUES (1, 'lost', '2026-11-21 12:00:00.000000')",
    )
    changed("a.db", "DELETE FROM step_arrays")
    before = contents("a.db")
    merged = merge("a.db", ["b.db"])
    (rejected,) = merged.rejected
    assert rejected.where == "b.db"
    trial = small().trial_id[:8]
    assert rejected.reason == f"attempt 1 of repeat 1 of trial {trial} of sweep first: {why}"
    assert (merged.num_new, merged.num_known) == (0, 0)
    assert contents("a.db") == before
    ended = ran([sys.executable, "-m", "scalemark", "db", "merge", "b.db", "--db", "a.db"])
    assert (ended.returncode, ended.stdout) == (1, "0 attempts merged, 0 were there already\n")
    assert ended.stderr == f"1 rejected:\n  b.db: {rejected.reason}\n"


def test_steps_that_are_missing_here_are_taken():
    twins()
    changed("a.db", "DELETE FROM step_arrays")
    assert merge("a.db", ["b.db"]).num_known == 1
    assert contents("a.db") == contents("b.db")


def test_a_repeat_with_fewer_attempts_here_stands_where_the_other_does():
    fill("a.db", [(small(), 100.0)])
    shutil.copy("a.db", "b.db")
    changed(
        "a.db",
        *(f"DELETE FROM {table}" for table in ("step_arrays", "measurements", "attempts")),
        "UPDATE repeats SET state = 'pending', num_attempts = 0",
    )
    assert merge("a.db", ["b.db"]).num_new == 1
    assert contents("a.db") == contents("b.db")


@pytest.mark.parametrize("state", ["claimed", "running"])
def test_what_runs_elsewhere_waits_here(state):
    make_empty("b.db")
    writer = Writer("b.db")
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    if state == "running":
        ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
    writer.close()
    merge("a.db", ["b.db"])
    (row,) = contents("a.db")["repeats"]
    assert (row["state"], row["num_attempts"], row["pid"], row["run_dir"]) == (
        "pending",
        0,
        None,
        None,
    )
    assert list(check("a.db")) == []


def test_an_attempt_that_is_run_here_at_the_moment_waits():
    twins()
    changed(
        "a.db",
        *(f"DELETE FROM {table}" for table in ("step_arrays", "measurements", "attempts")),
        "UPDATE repeats SET state = 'running', num_attempts = 1",
    )
    (rejected,) = merge("a.db", ["b.db"]).rejected
    assert rejected.reason.endswith("it is being run here; merge again once it has ended")
    assert contents("a.db")["attempts"] == []


def test_run_folders_elsewhere_are_named_by_their_whole_paths():
    fill("a.db", [(small(), 100.0)])
    shutil.copy("a.db", "b.db")
    changed(
        "a.db", *(f"DELETE FROM {table}" for table in ("step_arrays", "measurements", "attempts"))
    )
    changed("a.db", "UPDATE sweeps SET run_dir = '/here'")
    merge("a.db", ["b.db"])
    around = cell("b.db", "SELECT run_dir FROM sweeps")
    assert contents("a.db")["attempts"][0]["run_dir"] == f"{around}/x"


def other_schema(path: str) -> None:
    changed(path, "UPDATE database_info SET value = '9999' WHERE name = 'schema'")


def cut_off(path: str) -> None:
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: len(whole) // 2])


def orphaned(path: str) -> None:
    changed(path, "DELETE FROM machines")


def impossible(path: str) -> None:
    changed(path, "PRAGMA ignore_check_constraints = 1", "UPDATE measurements SET throughput = -1")


def other_spec(path: str) -> None:
    changed(path, "UPDATE trials SET spec = replace(spec, '\"seed\":2', '\"seed\":7')")


def foreign(path: str) -> None:
    Path(path).unlink()
    changed(path, "CREATE TABLE recipes (cake TEXT)")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (other_schema, "b.db: written by a newer scalemark (schema 9999"),
        (lambda path: changed(path, "UPDATE database_info SET value = '1' WHERE name = 'schema'"), "b.db: "),
        (cut_off, "b.db: "),
        (orphaned, "b.db: damaged (attempts rowid 1: the row of machines that it names is not there"),
        (impossible, "b.db: CHECK constraint failed in measurements; it is damaged: "),
        (other_spec, "b.db: damaged (trials "),
        (foreign, "b.db: a database of another program (it has recipes)"),
        (lambda path: Path(path).write_text("hello"), "b.db: file is not a database"),
        (lambda path: Path(path).write_text(""), "b.db: no such database, or an empty one; nothing was merged"),
        (lambda path: Path(path).unlink(), "b.db: no such database, or an empty one; nothing was merged"),
    ],
    ids=["newer", "older", "cut off", "orphaned", "impossible", "other spec", "foreign", "text", "empty", "missing"],
)  # fmt: skip
def test_what_cannot_be_merged_is_refused_before_anything_is(damage, reason):
    fill("a.db", [(small(), 100.0)])
    fill("b.db", [(small(seed=1), 100.0), (small(seed=2), 100.0)], name="b")
    fill("c.db", [(small(seed=3), 100.0)], name="c")
    before = contents("a.db")
    damage("b.db")
    with pytest.raises(StoreError) as refused:
        merge("a.db", ["c.db", "b.db"])
    assert str(refused.value).startswith(reason)
    assert contents("a.db") == before


@pytest.mark.parametrize(
    ("url", "other", "reason"),
    [
        ("a.db", "a.db", "a.db: the database itself; name another one"),
        ("a.db", "postgresql://me:secret@localhost:1/x", "postgresql://me:***@localhost:1/x: a server's database; only SQLite files are merged"),
        ("postgresql://me:secret@localhost:1/x", "a.db", "postgresql://me:***@localhost:1/x: a server's database; only SQLite files"),
    ],
)  # fmt: skip
def test_servers_and_the_database_itself_are_refused(url, other, reason):
    fill("a.db", [(small(), 100.0)])
    with pytest.raises(StoreError) as refused:
        merge(url, [other])
    assert str(refused.value).startswith(reason)


def test_the_other_database_is_left_as_it_is():
    make_rich()
    before = Path("a.db").read_bytes()
    merge("new.db", ["a.db"])
    assert Path("a.db").read_bytes() == before


def test_a_merge_that_fails_leaves_nothing(monkeypatch):
    make_rich()
    fill("b.db", [(small(seed=50), 50.0)], name="other")
    before = contents("b.db")
    monkeypatch.setattr("store.merge._Merging._add_attempts", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        merge("b.db", ["a.db"])
    assert contents("b.db") == before


@pytest.mark.integration
def test_the_command_says_what_it_did():
    make_rich()
    ended = ran([sys.executable, "-m", "scalemark", "db", "merge", "a.db", "--db", "new.db"])
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "4 attempts merged, 0 were there already\n1 reference merged\n"

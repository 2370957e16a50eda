"""Results go from one database to another without loss, without doubles, and what cannot be is reported with its reason."""

import csv
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas
import pytest
import sqlalchemy as sa

from store import schema
from store.database import open_for_writing
from store.errors import StoreError
from store.exchange import flat
from store.exchange.bulk import Added, add_all
from store.exchange.exports import ExportFormat, export, short_name
from store.exchange.imports import ImportFormat, guessed, import_files
from store.exchange.portable import Portable, to_json
from store.exchange.portable_rows import PortableRows, database_id
from store.filters.selection import attempt_ids
from store.writer import Writer
from tests.empty import make_empty
from tests.filled import NOON, PLACEMENT, begin, fill
from tests.portables import HEAD, REFERENCE, TWO_GPUS, attempt, everything
from tests.specs import small
from tests.store.command import store
from tests.tables import changing, contents, opened

pytestmark = pytest.mark.integration

ALL = "sweeps.origin"  # which tells where rows are from


@pytest.fixture
def other() -> str:
    """Another database, empty."""
    make_empty("other.db")
    return "other.db"


def add(db: str, *records: Portable) -> None:
    if "://" not in db and not Path(db).exists():
        make_empty(db)
    engine = open_for_writing(db)
    add_all(engine, records)
    engine.dispose()


def lines(path: str, *records: Portable | str) -> str:
    Path(path).write_text(
        "".join(f"{record if isinstance(record, str) else to_json(record)}\n" for record in records)
    )
    return path


def origins(db: str) -> list[str]:
    with opened(db) as connection:
        return list(
            connection.scalars(sa.select(schema.SweepRow.origin).order_by(schema.SweepRow.id))
        )


def own_id(db: str) -> str:
    with opened(db) as connection:
        return database_id(connection)


@pytest.mark.parametrize("kind", [ExportFormat.JSONL, ExportFormat.SQLITE])
def test_a_database_that_was_exported_and_imported_is_equal(db, kind):
    add(db, *everything())
    done = export(db, "out", kind)
    assert (done.num_attempts, done.paths, done.rejected) == (4, ["out"], [])
    added = import_files("other.db", ["out"])
    assert (added.num_new, added.num_references, added.rejected) == (4, 1, [])
    assert contents("other.db", ALL) == contents(db, ALL)
    assert origins("other.db") == [f"{own_id(db)} {short_name(db)}"] * 2


@pytest.mark.parametrize("kind", [ExportFormat.JSONL, ExportFormat.SQLITE])
def test_a_selection_is_exported_and_nothing_else(db, kind, other):
    add(db, *everything())
    name = f"out.{kind}"
    done = export(db, name, kind, ids=attempt_ids(["outcome=completed"]), with_steps=True)
    assert done.num_attempts == 1
    import_files(other, [name])
    found = contents(other)
    assert [(row["attempt"], row["outcome"]) for row in found["attempts"]] == [(2, "completed")]
    assert [row["id"] for row in found["trials"]] == [small().trial_id]
    assert [row["name"] for row in found["sweeps"]] == ["first"]
    assert {row["origin"] for row in found["reference_results"]} == {"published"}
    import_files(other, [export(db, "all.jsonl", ExportFormat.JSONL).paths[0]])
    assert contents(other, ALL) == contents(db, ALL)


@pytest.mark.parametrize("kind", [ExportFormat.JSONL, ExportFormat.SQLITE])
def test_what_goes_there_and_comes_back_changes_nothing(db, kind, other):
    add(db, *everything())
    before = contents(db)
    export(db, f"there.{kind}", kind, with_steps=True)
    import_files(other, [f"there.{kind}"])
    export(other, f"back.{kind}", kind, with_steps=True)
    added = import_files(db, [f"back.{kind}"])
    assert (added.num_new, added.num_known, added.rejected, added.renamed) == (0, 4, [], {})
    assert contents(db) == before


def test_another_database_is_merged_and_origins_are_kept(db):
    fill("a.db", [(small(), 100.0)], name="of a")
    fill("b.db", [(small(), 200.0)], name="of b")
    import_files("b.db", ["a.db"])
    import_files(db, ["b.db", "a.db"])
    assert sorted(origins(db)) == sorted([f"{own_id('a.db')} a.db", f"{own_id('b.db')} b.db"])
    assert len(contents(db)["attempts"]) == 2
    before = contents(db)
    assert import_files(db, ["b.db", "a.db"]).num_known == 3
    assert contents(db) == before


def test_a_sweep_of_the_name_of_another_is_renamed_and_that_is_said(db):
    add(db, attempt())
    lines("in.jsonl", attempt(sweep=replace(HEAD, uid="a" * 16)))
    ended = store("import", "in.jsonl", "--db", db)
    assert ended.returncode == 0
    assert ended.stderr == "another sweep is named first: the imported one is named first (2)\n"
    assert ended.stdout == "1 attempt imported, 0 were there already\n"


def test_a_newer_database_is_refused(db):
    fill("new.db", [(small(), 100.0)])
    with closing(sqlite3.connect("new.db")) as connection, connection:
        connection.execute("UPDATE database_info SET value = '9999' WHERE name = 'schema'")
    (rejected,) = import_files(db, ["new.db"]).rejected
    assert rejected.where == "new.db"
    assert rejected.reason.startswith("written by a newer scalemark (schema 9999")


def foreign() -> None:
    with closing(sqlite3.connect("in.db")) as connection:
        connection.execute("CREATE TABLE recipes (cake TEXT)")


def truncated() -> None:
    fill("in.db", [(small(seed=seed), 100.0) for seed in range(50)])
    whole = Path("in.db").read_bytes()
    Path("in.db").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: Path("in.db").write_text("hello"),
            "file is not a database; say what it is, with --format jsonl|log|table",
        ),
        (
            lambda: Path("in.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000),
            "file is not a database",
        ),
        (foreign, "a database of another program (it has recipes)"),
        (truncated, "malformed"),
    ],
    ids=["text", "garbage", "foreign", "truncated"],
)
def test_what_is_no_database_is_reported_and_the_rest_is_imported(db, make, reason):
    make()
    lines("good.jsonl", attempt())
    ended = store("import", "in.db", "good.jsonl", "--db", db)
    assert ended.returncode == 1
    assert ended.stdout == "1 attempt imported, 0 were there already\n"
    assert ended.stderr.startswith("1 rejected:\n  in.db: ")
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr


BAD = to_json(attempt(small(seed=3))).replace('"throughput":100.0', '"throughput":-1.0')
NOT_A_NUMBER = to_json(attempt(small(seed=4))).replace('"throughput":100.0', '"throughput":NaN')


def test_rejected_rows_are_listed_and_the_rest_is_imported(db):
    lines(
        "in.jsonl",
        attempt(),
        BAD,
        "",
        NOT_A_NUMBER,
        "{",
        attempt(small(seed=2)),
        attempt(exit_code=9),
        attempt(),
    )
    ended = store("import", "in.jsonl", "--db", db, "--json")
    assert ended.returncode == 1
    reported = json.loads(ended.stdout)
    assert {
        name: reported[name] for name in ("num_new", "num_known", "num_references", "renamed")
    } == {
        "num_new": 2,
        "num_known": 1,
        "num_references": 0,
        "renamed": {},
    }
    assert sorted(
        (one["where"], one["reason"].split(":")[0][:30]) for one in reported["rejected"]
    ) == [
        ("in.jsonl line 2", "throughput=-1.0"),
        ("in.jsonl line 4", "NaN"),
        ("in.jsonl line 5", "Expecting property name enclos"),
        ("in.jsonl line 7", "contradicts what is known of a"),
    ]
    assert len(contents(db)["attempts"]) == 2


def test_nothing_is_imported_when_that_is_asked_for(db):
    add(db, attempt(small(seed=9)))
    before = contents(db)
    lines("good.jsonl", attempt(small(seed=2)), REFERENCE)
    lines("bad.jsonl", attempt(), BAD)
    ended = store("import", "good.jsonl", "bad.jsonl", "--db", db, "--strict")
    assert ended.returncode == 2
    assert ended.stdout == "nothing imported\n"
    assert "bad.jsonl line 2: throughput=-1.0" in ended.stderr
    assert contents(db) == before
    assert store("import", "good.jsonl", "--db", db, "--strict").returncode == 0


def test_a_dry_run_tells_what_would_be_done_and_does_not(db):
    lines("in.jsonl", attempt(), REFERENCE)
    assert store("import", "in.jsonl", "--db", "none.db", "--dry-run").stdout.startswith(
        "1 attempt would be imported"
    )
    assert not Path("none.db").exists()
    ended = store("import", "in.jsonl", "--db", db, "--dry-run")
    assert (
        ended.stdout
        == "1 attempt would be imported, 0 were there already; 1 reference would be imported\n"
    )
    add(db, attempt(small(seed=2)))
    before = contents(db)
    assert import_files(db, ["in.jsonl"], dry_run=True).num_new == 1
    assert contents(db) == before


@pytest.mark.parametrize("how", ["strict", "dry_run"])
def test_others_write_while_everything_is_read(db, how, monkeypatch):
    monkeypatch.setattr("store.engine.BUSY_TIMEOUT_S", 1)
    add(db, attempt())
    lines("in.jsonl", *(attempt(small(seed=seed), position=seed) for seed in range(2, 5)))

    def write_meanwhile(_what: str, num: int, _total: int) -> None:
        with changing(db) as connection:
            connection.execute(
                sa.insert(schema.NoteRow).values(attempt_id=1, note=f"read {num}", added_at=NOON)
            )

    added = import_files(
        db, ["in.jsonl"], strict=how == "strict", dry_run=how == "dry_run", progress=write_meanwhile
    )
    assert added.num_new == 3
    assert [row["note"] for row in contents(db)["notes"]] == ["read 1", "read 2", "read 3"]


def test_a_dry_run_changes_and_leaves_nothing(capsys):
    add("old.db", attempt(small(seed=2)))
    before = Path("old.db").read_bytes()
    lines("in.jsonl", attempt(small(seed=77)))
    assert import_files("old.db", ["in.jsonl"], dry_run=True).num_new == 1
    assert Path("old.db").read_bytes() == before
    assert capsys.readouterr().err == ""


def test_the_password_of_a_database_that_is_not_there_is_not_reported(db):
    (rejected,) = import_files(db, ["postgresql://me:secret@localhost:1/x"]).rejected
    assert rejected.where == "postgresql://me:***@localhost:1/x"
    assert "secret" not in rejected.reason
    assert "is the server there" in rejected.reason


def test_the_first_twenty_rejected_rows_are_shown(db):
    lines("in.jsonl", *["{}"] * 25)
    ended = store("import", "in.jsonl", "--db", db)
    reported = ended.stderr.splitlines()
    assert (reported[0], len(reported), reported[-1]) == (
        "25 rejected:",
        22,
        "  and 5 more; --json lists all",
    )


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        ({"duration_s": 1e20}, "duration_s=1e+20: wanted 315576000 (ten years) or less"),
        (
            {"started_at": "9999-12-31T23:59:59+00:00"},
            "started_at=9999-12-31T23:59:59+00:00: wanted a year from 1900 to 9900",
        ),
    ],
)
def test_an_attempt_beyond_all_time_is_rejected(db, reported, reason):
    """Its repeat does not tell when it ended, so that it is reckoned."""
    record = json.loads(to_json(attempt()))
    record["repeat"] |= {"changes": []}
    lines("in.jsonl", json.dumps(record | reported), attempt(small(seed=2)))
    added = import_files(db, ["in.jsonl"])
    assert (added.num_new, [one.reason for one in added.rejected]) == (1, [reason])


@pytest.mark.parametrize(
    ("table", "missing"),
    [
        ("machines", "its machine 1 is missing"),
        ("placements", "its placement 1 is missing"),
        ("sweeps", "its sweep 1 is missing"),
    ],
)
@pytest.mark.parametrize("command", ["import", "export"])
def test_what_names_a_row_that_is_missing_is_one_damaged_row(db, table, missing, command):
    add(
        "old.db",
        attempt(),
        attempt(
            sweep=replace(HEAD, uid="a" * 16, name="b"),
            machine=TWO_GPUS,
            placement=replace(PLACEMENT, devices=(1,)),
        ),
    )
    with closing(sqlite3.connect("old.db")) as connection, connection:
        connection.execute(f"DELETE FROM {table} WHERE id = 1")
    done = (
        import_files(db, ["old.db"])
        if command == "import"
        else export("old.db", "out.jsonl", ExportFormat.JSONL)
    )
    assert {one.reason for one in done.rejected} == {missing}
    assert "old.db attempt 1" in [one.where for one in done.rejected]
    assert (done.num_new if isinstance(done, Added) else done.num_attempts) == 1


@pytest.mark.parametrize("kind", [ExportFormat.CSV, ExportFormat.PARQUET])
def test_attempts_and_their_steps_are_written_as_two_tables(db, kind):
    add(db, *everything())
    done = export(db, f"out.{kind}", kind, with_steps=True)
    assert done.paths == [f"out.{kind}", f"out-steps.{kind}"]
    read = pandas.read_csv if kind is ExportFormat.CSV else pandas.read_parquet
    attempts, steps = read(f"out.{kind}"), read(f"out-steps.{kind}")
    assert list(attempts) == list(flat.COLUMNS)
    assert list(steps) == list(flat.STEP_COLUMNS)
    found = contents(db)
    rates = [row["throughput"] for row in found["measurements"]]
    assert sorted(attempts["throughput"].dropna()) == sorted(rates)
    num_calls = [len(row["duration_over_least"]) for row in found["step_arrays"]]
    assert len(steps) == sum(num_calls) > 0


@pytest.mark.parametrize("name", ["in.csv", "in.parquet", "table"])
def test_a_table_is_not_imported_and_says_what_is(db, name):
    add(db, attempt())
    export(db, "in.csv", ExportFormat.CSV)
    export(db, "in.parquet", ExportFormat.PARQUET)
    shutil.copy("in.parquet", "table")
    with pytest.raises(
        StoreError, match=rf"^{name}: a table, .*; wanted a database, or what `python"
    ):
        import_files("other.db", [name])


def test_no_cell_is_taken_for_a_formula(db):
    texts = [
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\t=1",
        'a "b", c',
        "line\nline\r\nline",
        "progress 1%\rprogress 2%",
        "✓ ünï",
        "x" * 10_000,
        " ",
        "'",
    ]
    add(
        db,
        *(
            attempt(small(seed=seed), None, message=text, position=seed)
            for seed, text in enumerate(texts)
        ),
    )
    export(db, "out.csv", ExportFormat.CSV)
    with Path("out.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert [cell for cell in cells if cell[:1] in "=+@\t\r" and cell] == []
    assert "-9.5" not in cells
    assert "'=1+1" in cells


def test_negative_numbers_stay_numbers_in_a_table(db):
    add(db, attempt(throughput=None, exit_code=-9))
    export(db, "out.csv", ExportFormat.CSV)
    with Path("out.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["exit_code"] == "-9"


def test_one_cell_that_is_no_json_is_one_damaged_row():
    add("s.db", attempt(), attempt(small(seed=2)))
    with closing(sqlite3.connect("s.db")) as connection, connection:
        connection.execute("UPDATE step_arrays SET data_wait = '[1' WHERE attempt_id = 1")
    done = export("s.db", "out.jsonl", ExportFormat.JSONL)
    assert (done.num_attempts, [one.where for one in done.rejected]) == (1, ["s.db attempt 1"])


def test_what_is_not_utf8_is_one_rejected_line(db):
    Path("in.jsonl").write_bytes(b"\xef\xbb\xbf" + to_json(attempt()).encode() + b"\n\xff\n")
    added = import_files(db, ["in.jsonl"])
    assert (added.num_new, [(one.where, one.reason) for one in added.rejected]) == (
        1,
        [("in.jsonl line 2", "byte 0 of it is not UTF-8")],
    )


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("x", b"SQLite format 3\0", ImportFormat.SQLITE),
        ("x.txt", b'{"kind": "attempt", "scalemark":1}', ImportFormat.JSONL),
        ("x.txt", b'\xef\xbb\xbf{"kind": "attempt", "scalemark":1}', ImportFormat.JSONL),
        ("x.log", b"10\timages/sec: 100.0", ImportFormat.LOG),
    ],
)
def test_what_a_file_is_is_known_from_its_content_or_its_name(name, content, kind):
    Path(name).write_bytes(content)
    assert guessed(name) is kind


def test_a_file_of_no_known_format_is_refused_before_anything_is_imported(db):
    lines("good.jsonl", attempt())
    with pytest.raises(StoreError, match=r"missing\.csv: No such file"):
        import_files(db, ["good.jsonl", "missing.csv"])
    Path("what.bin").write_bytes(b"\1\2\3")
    with pytest.raises(
        StoreError,
        match=r"what\.bin: of no format that is known; name it with --format jsonl\|sqlite",
    ):
        import_files(db, ["good.jsonl", "what.bin"])
    assert import_files(db, ["good.jsonl"]).num_new == 1


def test_a_log_becomes_a_reference_once(db):
    shutil.copy(Path(__file__).parent / "exchange" / "logs" / "tf_cnn_1.10_worker.txt", "log.txt")
    said = ("--source", "our old box", "--citation", "lab book", "--hardware", "8xK80")
    ended = store("import", "log.txt", *said, "--db", db)
    assert ended.returncode == 2
    assert "a log, which does not name them itself: give --model and --num-gpus" in ended.stderr
    arguments = ("import", "log.txt", *said, "--model", "alexnet", "--num-gpus", "4", "--db", db)
    assert store(*arguments).stdout == "1 reference imported\n"
    assert store(*arguments).stdout == "1 were there already\n"
    sql = "SELECT model, num_gpus, throughput FROM reference_results WHERE source = 'our old box'"
    with opened(db) as connection:
        assert connection.exec_driver_sql(sql).all() == [("alexnet", 4, 521.47)]


def test_every_column_has_a_name_of_its_own():
    single = ("verdict", "strategy", "gpu", "machine_num_gpus", "shares_host")
    parts = (flat._SWEEP, flat._REPEAT, flat._ATTEMPT, flat._AXES, flat._MACHINE, flat._SOFTWARE)
    measured = (flat._MEASURED, flat._NESTED, flat._NESTED_MEASURED)
    assert len(flat.COLUMNS) == sum(map(len, (single, *parts, *measured)))


@pytest.mark.parametrize("kind", [ExportFormat.JSONL, ExportFormat.SQLITE])
def test_a_deleted_attempt_is_exported_as_such_and_not_as_a_selection(db, kind, other):
    add(db, attempt(deleted_at=NOON))
    export(db, f"all.{kind}", kind)
    assert export(db, f"some.{kind}", kind, ids=attempt_ids([])).num_attempts == 0
    import_files(other, [f"all.{kind}"])
    assert [row["deleted_at"] for row in contents(other)["attempts"]] == [NOON]


def test_a_pipe_is_refused_because_guessing_would_eat_its_beginning(db):
    ended = subprocess.run(
        [sys.executable, "-m", "store", "import", "/dev/stdin", "--db", db],
        input="{}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "/dev/stdin: not a file" in ended.stderr


MLFLOW_URI = "sqlite:///file:mlflow.db?uri=true&password=TOPSECRET"  # SQLite takes no notice of what it does not know


def test_attempts_become_runs_of_mlflow_once(db):
    pytest.importorskip("mlflow")
    add(db, attempt(), attempt(small(seed=2), deleted_at=NOON))
    for _ in range(2):
        ended = store(
            "export", "--db", db, "--format", "mlflow", "--out", MLFLOW_URI, "--experiment", "e"
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.endswith(
            "attempt exported to sqlite:///file:mlflow.db?uri=true&password=***\n"
        )
    with closing(sqlite3.connect("mlflow.db")) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (1,)


@pytest.mark.parametrize("kind", [kind for kind in ExportFormat if kind is not ExportFormat.MLFLOW])
def test_what_is_there_is_not_overwritten(db, kind):
    add(db, attempt())
    Path("out").write_text("precious")
    with pytest.raises(
        StoreError, match=r"^out: it is there already; remove it, or give another file with --out$"
    ):
        export(db, "out", kind)
    assert Path("out").read_text() == "precious"


def test_an_export_that_cannot_be_written_leaves_nothing(db):
    add(db, attempt())
    with pytest.raises(
        StoreError,
        match=r"^missing/out\.csv: No such file or directory; give another file with --out",
    ):
        export(db, "missing/out.csv", ExportFormat.CSV)
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith("out")) == []


def test_damaged_rows_are_left_out_of_an_export_and_reported(db, other):
    add(db, attempt(), attempt(small(seed=2)), attempt(small(seed=3)))
    with changing(db) as connection:
        connection.execute(
            sa.update(schema.MeasurementRow)
            .where(schema.MeasurementRow.attempt_id == 2)
            .values(window_s=-1)
        )
        steps = schema.StepArraysRow
        connection.execute(
            sa.update(steps).where(steps.attempt_id == 3).values(data_wait={"no": "list"})
        )
    ended = store("export", "--db", db, "--format", "jsonl", "--out", "out.jsonl")
    assert ended.returncode == 1
    assert f"{short_name(db)} attempt 2: window_s=-1.0: wanted 0 or more" in ended.stderr
    assert f"{short_name(db)} attempt 3: steps.data_wait=" in ended.stderr
    assert import_files(other, ["out.jsonl"]).num_new == 1


def test_an_export_of_a_database_that_is_not_there_says_so():
    ended = store("export", "--db", "none.db", "--format", "csv", "--out", "x.csv")
    assert (ended.returncode, ended.stderr[:27]) == (2, "store: none.db: no such dat")


def test_everything_is_read_in_the_order_it_was_written(db):
    add(db, *everything())
    with opened(db) as connection:
        found = list(PortableRows(connection, "r.db", "").attempts())
    export(db, "out.jsonl", ExportFormat.JSONL)
    reported = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [one["trial_id"] for one in reported if one["kind"] == "attempt"] == [
        one.trial_id for one in found
    ]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE tags SET added_at = 'nonsense' WHERE id = 1",
        "UPDATE notes SET added_at = 'nonsense' WHERE id = 1",
        "UPDATE events SET at_unix_us = 'nonsense' WHERE repeat_id = 1",
        f"UPDATE events SET at_unix_us = {2**62} WHERE repeat_id = 1",
    ],
)
def test_a_trial_with_an_unreadable_time_alone_is_left_out(other, damage):
    make_empty("in.db")
    writer = Writer("in.db")
    bad, good = small(), small(seed=2)
    begin(writer, {bad: 1, good: 1})  # and no attempt
    writer.close()
    with closing(sqlite3.connect("in.db", isolation_level=None)) as connection:
        for table, column in (("tags", "tag"), ("notes", "note")):
            for spec in (bad, good):
                connection.execute(
                    f"INSERT INTO {table} (trial_id, {column}, added_at) "
                    f"VALUES ('{spec.trial_id}', 'odd', '2026-01-01 00:00:00.000000')"
                )
        connection.execute(damage)
    added = import_files(other, ["in.db"])
    (rejected,) = added.rejected
    assert f"trial {bad.trial_id} of sweep 1" in rejected.where
    with opened(other) as connection:
        found = connection.scalars(sa.select(schema.TrialRow.id)).all()
    assert found == [good.trial_id]

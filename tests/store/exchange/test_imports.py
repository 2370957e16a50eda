"""Files of others are known by their content, and nothing is imported where one is not understood."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from store.errors import StoreError
from store.exchange.exports import ExportFormat, export
from store.exchange.imports import ImportFormat, guessed, import_files
from tests.filled import fill
from tests.specs import small
from tests.store.command import store
from tests.tables import opened

LOGS = Path(__file__).parent / "logs"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("x.csv", b"a", ImportFormat.TABLE),
        ("x", b"PAR1", ImportFormat.TABLE),
        ("x.txt", b"| a |\n|---|\n", ImportFormat.TABLE),
        ("x.csv.txt", b"10\timages/sec: 100.0", ImportFormat.LOG),
    ],
)
def test_what_a_file_is_is_known_from_its_content_or_its_name(name, content, kind):
    Path(name).write_bytes(content)
    assert guessed(name) is kind


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "x: No such file or directory"),
        (lambda path: path.mkdir(), "x: a folder; name its files, as x/*.csv"),
        (lambda path: path.write_bytes(b"\1\2"), "x: of no format that is known; name it with --format log|table"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), "x: a SQLite database; `python -m store merge x` adds the results of one"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_refused_before_anything_is(make, reason):
    make(Path("x"))
    Path("good.csv").write_text("num_gpus,throughput\n1,5\n")
    with pytest.raises(StoreError) as refused:
        import_files("r.db", ["good.csv", "x"])
    assert str(refused.value) == reason
    assert not Path("r.db").exists()
    with pytest.raises(StoreError, match=r"^postgresql://me:\*\*\*@h/x: a URL; wanted a file"):
        import_files("r.db", ["postgresql://me:secret@h/x"])


def test_a_pipe_is_refused_because_guessing_would_eat_its_beginning():
    ended = subprocess.run(
        [sys.executable, "-m", "store", "import", "/dev/stdin", "--db", "r.db"],
        input="{}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "/dev/stdin: not a file" in ended.stderr


@pytest.mark.parametrize("kind", [ExportFormat.CSV, ExportFormat.PARQUET])
def test_our_own_export_is_not_imported_and_says_what_is(kind):
    fill("r.db", [(small(), 100.0)])
    export("r.db", f"out.{kind}", kind)
    with pytest.raises(StoreError, match=r"written for other programs; wanted a database, which"):
        import_files("other.db", [f"out.{kind}"])


def test_a_log_becomes_a_reference_once(db):
    shutil.copy(LOGS / "tf_cnn_1.10_worker.txt", "log.txt")
    said = ("--set", "source=our old box", "--set", "citation=lab book", "--set", "hardware=8xK80")
    ended = store("import", "log.txt", *said, "--db", db)
    assert ended.returncode == 2
    assert (
        "a log, which does not say it itself: give --set model= and --set num_gpus=" in ended.stderr
    )
    more = ("--set", "model=alexnet", "--set", "num_gpus=4")
    arguments = ("import", "log.txt", *said, *more, "--db", db)
    assert store(*arguments).stdout == "1 reference imported\n"
    assert store(*arguments).stdout == "1 were there already\n"
    sql = "SELECT model, num_gpus, throughput FROM reference_results WHERE source = 'our old box'"
    with opened(db) as connection:
        assert connection.exec_driver_sql(sql).all() == [("alexnet", 4, 521.47)]


ROWS = "num_gpus,throughput\n1,5\n2,x\n"


def test_a_dry_run_says_what_would_be_done_and_changes_nothing():
    Path("in.csv").write_text(ROWS)
    arguments = ("import", "in.csv", "--db", "r.db", "--dry-run")
    expected = "1 row would be imported as measured elsewhere\n"
    assert store(*arguments).stdout.startswith(expected)
    assert not Path("r.db").exists()
    fill("r.db", [(small(), 100.0)])
    before = Path("r.db").read_bytes()
    assert store(*arguments).stdout.startswith(expected)
    assert Path("r.db").read_bytes() == before


def test_the_first_twenty_rejected_rows_are_shown():
    Path("in.csv").write_text("num_gpus,throughput\n" + "1,x\n" * 25)
    ended = store("import", "in.csv", "--db", "r.db")
    lines = ended.stderr.splitlines()
    assert (lines[0], len(lines), lines[-1]) == (
        "25 rejected:",
        22,
        "  and 5 more; --json lists all",
    )

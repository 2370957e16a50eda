"""Files of others are known by their content, and nothing is imported where one is not understood."""

import os
from pathlib import Path

import pytest

from store.errors import StoreError
from store.imports import import_files
from tests.store.command import store


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "x: No such file or directory"),
        (lambda path: path.mkdir(), "x: a folder; name its files, as x/*.csv"),
        (os.mkfifo, "x: found a FIFO, wanted a regular file"),
        (lambda path: path.write_bytes(b"a\0b"), "x: no text; wanted CSV, TSV or Markdown"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), "x: a SQLite database; `scalemark db merge x` adds the results of one"),
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


ROWS = "num_gpus,throughput\n1,5\n2,x\n"


def test_the_first_twenty_rejected_rows_are_shown():
    Path("in.csv").write_text("num_gpus,throughput\n" + "1,x\n" * 25)
    ended = store("db", "import", "in.csv", "--db", "r.db")
    lines = ended.stderr.splitlines()
    assert (lines[0], len(lines), lines[-1]) == (
        "25 rejected:",
        22,
        "  and 5 more; --json lists all",
    )

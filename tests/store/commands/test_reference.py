"""`db import --remove`: figures of tables go, and those that come with scalemark stay."""

import subprocess
from pathlib import Path

import pytest

from store.imports import ImportOptions, import_files
from store.writer import Writer
from tests.store.command import store
from tests.tables import contents


@pytest.fixture
def database(writer: Writer) -> str:
    return "r.db"


def remove(*arguments: str) -> subprocess.CompletedProcess[str]:
    return store("db", "import", "--remove", *arguments)


def test_figures_of_a_table_are_removed_by_their_axes(database):
    Path("mine.csv").write_text("num_gpus,throughput,zero\n1,100,2\n8,700,3\n")
    import_files(database, ["mine.csv"], said=ImportOptions(axes=("zero",)))
    removed = remove("--db", database, "axes.zero=2", "source=mine.csv")
    assert (removed.stdout, removed.stderr) == ("1 removed\n", "")
    unknown = remove("--db", database, "source=nope")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "source=nope: no figure is like that; sources to remove: mine.csv" in unknown.stderr
    kept = remove("--db", database, "num_gpus=8")
    assert kept.stdout == "1 removed\n"
    assert "come with scalemark: they stay" in kept.stderr
    assert len(contents(database)["reference_results"]) == 423


def test_nothing_is_removed_without_a_filter_or_a_database():
    assert remove("--db", "none.db").returncode == 2
    refused = remove("--db", "none.db", "source=x")
    assert "no such database yet" in refused.stderr
    assert not Path("none.db").exists()

"""`list --origin published` and `db import --remove`: figures of others, and hostile text in them."""

import csv
import json
import subprocess
from pathlib import Path

import pytest

from scalemark.text.untrusted import visible
from store.commands import read
from store.database import open_for_reading
from store.imports import ImportOptions, import_files
from store.reading.references import list_references
from store.writer import Writer
from tests.store.command import store
from tests.store.test_references import HOSTILE
from tests.tables import asked


@pytest.fixture
def database(writer: Writer) -> str:
    return "r.db"


def listed(*arguments: str, origin: str = "published") -> subprocess.CompletedProcess[str]:
    return store("list", "--origin", origin, *arguments)


def remove(*arguments: str) -> subprocess.CompletedProcess[str]:
    return store("db", "import", "--remove", *arguments)


def add(text: str, **columns: str) -> None:
    """Take in a figure of a table that is cited so."""
    values = {"num_gpus": "8", "throughput": "5000.5", "source": text, "citation": text, **columns}
    with Path("one.csv").open("w", newline="") as file:
        csv.writer(file).writerows([values, values.values()])
    import_files("r.db", ["one.csv"])


def test_without_a_database_the_published_references_are_listed():
    answer = listed("--db", "none.db", "--json")
    assert len(json.loads(answer.stdout)) == 423
    assert "none.db: no such database yet; these are the published references" in answer.stderr
    assert not Path("none.db").exists()


def test_the_list_says_where_each_can_be_looked_up():
    lines = listed("--db", "none.db", "model=alexnet", "num_gpus=4").stdout.splitlines()
    assert lines[0].split() == [*read.REFERENCE_COLUMNS]
    (row,) = (line for line in lines if "4xV100" in line and "benchmarks/issues/359" not in line)
    for text in ("11298", "images", "replicated ?", "fp16", "tensorflow/benchmarks#283"):
        assert text in row


def test_a_list_of_nothing_says_what_there_is():
    answer = listed("--db", "none.db", "model=resnet51")
    assert answer.stdout == ""
    assert (
        "no reference is like that; there are 423, of the models alexnet, bert_large,"
        in answer.stderr
    )
    assert json.loads(listed("--db", "none.db", "model=resnet51", "--json").stdout) == []


def test_a_reference_may_count_other_items_than_images(database):
    add("A blog", item="tokens")
    answer = listed("--db", database, "item=tokens").stdout
    assert "5000  tokens" in answer
    assert "images" not in answer


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_escaped_on_one_line(database, text):
    add(text, note=text)
    lines = listed("--db", database, "origin=added").stdout.splitlines()
    assert len(lines) == 2
    assert lines[-1].endswith(visible(text).strip())
    assert all(line.isprintable() for line in lines)
    assert asked(list_references, open_for_reading(database))[-1]["note"] == text


def test_figures_of_a_table_are_listed_with_their_axes_and_removed(database):
    Path("mine.csv").write_text("num_gpus,throughput,zero\n1,100,2\n8,700,3\n")
    import_files(database, ["mine.csv"], said=ImportOptions(axes=("zero",)))
    answer = listed("--db", database, "axes.zero>=3", origin="elsewhere").stdout
    assert "zero=3" in answer
    assert "zero=2" not in answer
    removed = remove("--db", database, "axes.zero=2", "source=mine.csv")
    assert (removed.stdout, removed.stderr) == ("1 removed\n", "")
    kept = remove("--db", database, "num_gpus=8")
    assert kept.stdout == "1 removed\n"
    assert "come with scalemark: they stay" in kept.stderr
    assert len(asked(list_references, open_for_reading(database))) == 423


def test_nothing_is_removed_without_a_filter_or_a_database():
    assert remove("--db", "none.db").returncode == 2
    refused = remove("--db", "none.db", "source=x")
    assert "no such database yet" in refused.stderr
    assert not Path("none.db").exists()

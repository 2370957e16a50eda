"""The views hold what was measured, and average over nothing by accident."""

import math
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
import sqlalchemy as sa

from store import sqlite
from store.database import open_for_reading
from store.reading import queries
from store.schema import AttemptRow, MeasurementRow, TagRow
from store.writer import Writer
from tests.conftest import PROJECT
from tests.filled import ENVIRONMENT, MACHINE, NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small

ONE, FOUR = (
    small(model="resnet50", all_reduce="nccl"),
    small(model="resnet50", all_reduce="nccl", num_gpus=4),
)
STRONG = {"model": "vgg16", "scaling": "strong"}


@pytest.fixture
def filled(db: str) -> str:
    fill(db, [(ONE, 100.0), (FOUR, 350.0), (FOUR, 370.0), (small(model="vgg16"), None)])
    return db


@pytest.fixture
def varied(filled: str) -> str:
    """And other machines, other software, neighbors, strong scaling, deleted and doubtful attempts, and a trial without baseline."""
    other = replace(MACHINE, host="other")
    fill(filled, [(ONE, 10.0), (ONE, 12.0), (ONE, 20.0), (FOUR, 30.0)], name="other", machine=other)
    newer = ENVIRONMENT | {"packages": {"tensorflow": "2.22.0"}}
    fill(
        filled, [(FOUR, 400.0), (small(num_gpus=8, **STRONG), 5.0)], name="newer", environment=newer
    )
    strong = [
        (small(batch_size=8, **STRONG), 50.0),
        (small(batch_size=4, num_gpus=2, **STRONG), 90.0),
        (small(num_gpus=4, **STRONG), 0.0),
    ]
    fill(filled, strong, name="strong")
    writer = Writer(filled)
    ledger = begin(writer, {ONE: 1, FOUR: 2}, name="shared", shares_host=True, rerun=True)
    for number, repeat in enumerate(ledger.open_repeats()):
        ledger.claim(repeat)
        ledger.run(repeat, "/runs/y", PLACEMENT, NOON)
        spec = ONE if repeat.trial_id == ONE.trial_id else FOUR
        made = attempt(spec, 70.0 + number, repeat=repeat.repeat)
        ledger.finish(
            repeat.repeat_id, replace(made, placement=replace(PLACEMENT, shares_host=True))
        )
    with writer.engine.begin() as connection:
        connection.execute(sa.update(AttemptRow).where(AttemptRow.id == 3).values(deleted_at=NOON))
        connection.execute(
            sa.update(MeasurementRow)
            .where(MeasurementRow.attempt_id == 6)
            .values(verdict="suspect")
        )
        connection.execute(sa.insert(TagRow).values(sweep_id=2, tag="kept", added_at=NOON))
    writer.close()
    return filled


def test_a_filter_of_axes_reaches_the_indexes_behind_the_view():
    """On SQLite, whose plans do not depend on how many rows there are."""
    fill("plan.db", [(ONE, 1.0)])
    plan = "EXPLAIN QUERY PLAN SELECT * FROM scaling WHERE model = 'resnet50' AND batch_size = 64"
    reported = [row["detail"] for row in queries.rows(open_for_reading("plan.db"), plan)]
    assert "SEARCH trials USING INDEX ix_trials_model (model=?)" in reported
    assert not any(
        detail.startswith(("SCAN trials", "SCAN attempts", "SCAN measurements"))
        for detail in reported
    )
    assert sum(detail.startswith("CORRELATED") for detail in reported) == 1  # the trial on 1 GPU


def test_the_view_never_averages_over_machine_software_or_neighbors(varied):
    found = queries.rows(
        open_for_reading(varied),
        "SELECT host, shares_host, num_repeats, throughput, lowest, highest, num_doubtful, speed_up "
        "FROM scaling WHERE model = 'resnet50' AND num_gpus = 1 ORDER BY shares_host, lowest",
    )
    assert [tuple(row.values()) for row in found] == [
        ("other", False, 3, pytest.approx((10 * 12 * 20) ** (1 / 3)), 10.0, 20.0, 1, 1.0),
        ("testbox", False, 1, 100.0, 100.0, 100.0, 0, 1.0),
        ("testbox", True, 1, 70.0, 70.0, 70.0, 0, 1.0),
    ]


def test_axes_that_hold_anything_come_back_as_they_were(db):
    nasty = ['"', "[1]", "\x1f", "a,b", "naïve ☃", "null", ""]
    fill(db, [(small(data_dir=text, seed=number), 1.0) for number, text in enumerate(nasty)])
    rows = queries.rows(open_for_reading(db), "SELECT data_dir FROM throughput ORDER BY attempt_id")
    assert [row["data_dir"] for row in rows] == nasty


def test_the_command_line_needs_neither_pandas_nor_numpy():
    script = "import sys, store.commands.read, store.command_line; print([n for n in ('pandas', 'numpy', 'pyarrow') if n in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


@pytest.mark.integration
def test_a_database_is_made_and_read_where_tensorflow_was_imported_first(tmp_path):
    """A bug: TensorFlow brings an SQLite without ln(), by which no view could be read or made."""
    script = (
        "import tensorflow; from tests.filled import fill; from tests.specs import small; "
        "import scalemark; fill('r.db', [(small(), 100.0), (small(num_gpus=2), 190.0)]); "
        "print(scalemark.open('r.db').trials().speed_up.tolist())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "[1.0, 1.9]\n"), ended.stderr[-2000:]


def test_functions_for_sqlite_without_math_are_as_its_own():
    asked = "SELECT ln(2.0), ln(1), ln(0), ln(-1.0), ln(NULL), ln('x'), exp(1), exp(NULL), exp('x'), exp(1000)"
    connection = sqlite3.connect(":memory:")
    with closing(connection):
        sqlite._add_math(connection)
        (ours,) = connection.execute(asked)
    assert ours == (math.log(2), 0, *[None] * 4, math.e, None, None, math.inf)

"""Frames hold what the database does: as its views, with the types that are promised, and as the examples say."""

import doctest
import os
import re
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import sqlalchemy as sa

import store.api
from store.commands import annotate
from store.database import open_for_reading, open_for_writing
from store.errors import StoreError
from store.reading import listing, queries
from store.schema import AttemptRow, MeasurementRow, TagRow, TrialRow
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
    """As the examples of `store.api` have it."""
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
        ledger.claim(repeat, NOON)
        ledger.run(repeat, "/runs/y", PLACEMENT, NOON)
        spec = ONE if repeat.trial_id == ONE.trial_id else FOUR
        made = attempt(spec, 70.0 + number, repeat=repeat.repeat)
        ledger.finish(
            repeat.repeat_id, replace(made, placement=replace(PLACEMENT, shares_host=True)), NOON
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


def rows_of(frame: pd.DataFrame) -> list[dict[str, object]]:
    """With None for whatever is missing, in an order of its own."""
    plain = frame.astype(object).where(frame.notna(), None)
    return sorted(plain.to_dict("records"), key=repr)


def test_the_examples_are_true(filled, monkeypatch):
    monkeypatch.setattr(store.api, "default_url", lambda: filled)
    examples = [test for test in doctest.DocTestFinder().find(store.api) if test.examples]
    assert len(examples) == 3
    for test in examples:
        test.globs |= {"db": store.api.open(filled)}
        for example in test.examples:
            example.source = example.source.replace('"results.db"', repr(filled))
        assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("method", ["attempts", "steps"])
def test_every_documented_column_is_there_with_its_dtype(varied, method):
    frame = getattr(store.api.open(varied), method)(*([1] if method == "steps" else []))
    documented = re.findall(
        r"^ +\| (.+?) \| (.+?) \|", getattr(store.api.Database, method).__doc__, re.MULTILINE
    )[1:]
    for names, dtypes in documented:
        for name in re.findall(r"[a-z_0-9]+", names.replace("..", "")):
            if name.strip("_") in ("low", "high"):
                name = f"throughput{name}"
            if dtypes != "---":
                assert (
                    str(frame[name].dtype) in dtypes.split(", ") or dtypes == "datetime64[us, UTC]"
                )
    if method == "attempts":
        assert str(frame["started_at"].dtype) == "datetime64[us, UTC]"


def test_types_do_not_depend_on_what_was_found(varied):
    db = store.api.open(varied)
    whole, none = db.attempts(), db.attempts("model=nope")
    assert (len(none), list(none)) == (0, list(whole))
    assert [str(dtype) for dtype in none.dtypes] == [str(dtype) for dtype in whole.dtypes]


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


def test_attempts_are_all_that_count_as_they_are_stored(varied):
    frame = store.api.open(varied).attempts()
    engine = open_for_reading(varied)
    stored = queries.selected(engine, listing.listing(engine, columns=list(listing.LISTABLE)))
    assert frame["attempt_id"].tolist() == [row["attempt"] for row in stored]
    assert 3 not in set(frame["attempt_id"])
    same = [name for name in frame if name in listing.LISTABLE and name not in ("attempt", "trial")]
    assert {column.name for column in TrialRow.__table__.columns} - {"id", "curve", "spec"} <= set(
        same
    )
    plain = frame.astype(object).where(frame.notna(), None)
    for name in same:
        found = [
            value.to_pydatetime() if isinstance(value, pd.Timestamp) else value
            for value in plain[name]
        ]
        assert found == [row[name] for row in stored], name


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


def test_steps_are_those_of_the_view(varied):
    found = store.api.open(varied).steps(1)
    wanted = queries.rows(
        open_for_reading(varied), "SELECT * FROM step_samples WHERE attempt_id = 1 ORDER BY step"
    )
    assert found.to_dict("records") == [
        {name: value for name, value in row.items() if name != "attempt_id"} for row in wanted
    ]
    empty = store.api.open(varied).steps(4)
    assert (len(empty), [str(dtype) for dtype in empty.dtypes]) == (
        0,
        [str(dtype) for dtype in found.dtypes],
    )
    with pytest.raises(
        StoreError, match=r"^77: no such attempt; see `python -m store list --db .*`$"
    ):
        store.api.open(varied).steps(77)


def test_steps_of_a_deleted_attempt_are_in_no_frame_either(db):
    fill(db, [(small(), 1.0)])
    engine = open_for_writing(db)
    chosen = annotate.choose(engine, ["1"], deleted=False)
    annotate.set_deleted(engine, chosen, NOON)
    with pytest.raises(
        StoreError, match=r"^1: deleted; `python -m store restore 1` brings it back$"
    ):
        store.api.open(db).steps(1)
    annotate.set_deleted(engine, annotate.choose(engine, ["1"], deleted=True), None)
    assert len(store.api.open(db).steps(1)) == 3


def test_axes_that_hold_anything_come_back_as_they_were(db):
    nasty = ['"', "[1]", "\x1f", "a,b", "naïve ☃", "null", ""]
    fill(db, [(small(data_dir=text, seed=number), 1.0) for number, text in enumerate(nasty)])
    assert store.api.open(db).attempts()["data_dir"].tolist() == nasty


def test_a_filter_that_is_none_is_refused(filled):
    db = store.api.open(filled)
    with pytest.raises(StoreError, match=r"^modle: nothing to filter by; did you mean model\?$"):
        db.attempts("modle=x")
    with pytest.raises(StoreError, match=r"^origin='dreamt': there are measured, simulated$"):
        db.attempts(origin="dreamt")
    with pytest.raises(StoreError, match=r"^none\.db: no such database"):
        store.api.open("none.db")


def test_without_a_url_it_is_the_usual_database(filled, monkeypatch):
    monkeypatch.setenv("SCALEMARK_DB", filled)
    assert len(store.api.open().attempts()) == 4


def test_the_command_line_needs_neither_pandas_nor_numpy():
    script = "import sys, store.__main__; print([n for n in ('pandas', 'numpy', 'pyarrow') if n in sys.modules])"
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
        "print(scalemark.open('r.db').scaling().speed_up.tolist())"
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

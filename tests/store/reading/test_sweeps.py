"""Sweeps are listed with what they asked for and what came of it, and histories with their sweeps, oldest first."""

from datetime import UTC, datetime, timedelta

import pytest

from scalemark.records.measurement import Verdict
from store.commands import annotate
from store.database import open_for_reading, open_for_writing
from store.errors import StoreError
from store.reading import show
from store.reading.sweeps import every_sweep, processes
from tests.filled import NOON, fill
from tests.nights import FIRST, fill_nights
from tests.specs import small


def test_every_sweep_is_listed_newest_first(db):
    fill(db, [(small(), 5.0), (small(), None), (small(model="vgg16"), 7.0)], name="old")
    fill(db, [(small(num_gpus=2), 9.0)], name="new")
    newest, oldest = every_sweep(open_for_reading(db))
    assert (newest.sweep, newest.models, newest.num_trials) == ("new", ("trivial",), 1)
    assert (oldest.sweep, oldest.models, oldest.engines) == (
        "old",
        ("trivial", "vgg16"),
        ("tensorflow",),
    )
    assert (oldest.num_trials, oldest.num_attempts, oldest.num_completed) == (2, 3, 2)
    assert oldest.finished_at is not None


def test_deleted_attempts_do_not_count(db):
    fill(db, [(small(), 5.0), (small(), 6.0)])
    engine = open_for_writing(db)
    annotate.set_deleted(engine, annotate.choose(engine, ["1"], deleted=False), NOON)
    (listed,) = every_sweep(open_for_reading(db))
    assert (listed.num_attempts, listed.num_completed) == (1, 1)


def test_a_database_without_sweeps_lists_none(db):
    assert every_sweep(open_for_reading(db)) == []


ONE, TWO = small(num_gpus=1), small(num_gpus=2)


def read(db, *filters, **options):
    engine = open_for_reading(db)
    try:
        return processes(engine, filters, **{"simulated": False, **options})
    finally:
        engine.dispose()


def test_processes_come_by_the_dates_of_their_sweeps(db):
    fill_nights(db, {ONE: [100.0, 101.0], TWO: [200.0, None]})
    fill_nights(db, {ONE: [90.0]}, first=FIRST - timedelta(days=30), name="older")
    found = read(db)
    assert [row.sweep for row in found.rows] == ["older-0", "night-0", "night-0", "night-1"]
    assert sorted(row.throughput for row in found.rows) == [90.0, 100.0, 101.0, 200.0]
    assert found.rows[0].started_at == FIRST - timedelta(days=30)
    assert {found.trials[row.trial_id]["num_gpus"] for row in found.rows} == {1, 2}


def test_only_numbers_that_may_be_quoted_count(db):
    results = [(ONE, 100.0), (ONE, None), (TWO, 200.0)]
    fill(db, results, details=[{}, {}, {"verdict": Verdict.INVALID}])
    assert [row.throughput for row in read(db).rows] == [100.0]
    assert read(db, simulated=True).rows == []


def test_filters_and_a_sweep_choose(db):
    fill_nights(db, {ONE: [100.0, 101.0], TWO: [200.0, None]})
    assert len(read(db, "num_gpus=2").rows) == 1
    assert len(read(db, sweep="night-1").rows) == 2  # of the trial that it asked for
    with pytest.raises(StoreError, match="nobody"):
        read(db, sweep="nobody")


def test_a_tag_of_a_sweep_accepts(db):
    fill_nights(db, {ONE: [100.0, 101.0]})
    engine = open_for_writing(db)
    annotate.add_tags(
        engine, show.find(engine, "night-1"), ["accepted"], datetime(2026, 2, 1, tzinfo=UTC)
    )
    engine.dispose()
    found = read(db)
    accepted = [row.sweep for row in found.rows if row.sweep_id in found.accepted]
    assert accepted == ["night-1"]

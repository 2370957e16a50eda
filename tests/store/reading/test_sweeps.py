"""Sweeps are listed with what they asked for and what came of it, and histories with their sweeps, oldest first."""

from store.commands import change
from store.database import open_for_reading, open_for_writing
from store.reading import listing
from store.reading.sweeps import begun_sweeps, every_sweep
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
    change.set_deleted(engine, change.choose(engine, ["1"], deleted=False), NOON)
    (listed,) = every_sweep(open_for_reading(db))
    assert (listed.num_attempts, listed.num_completed) == (1, 1)


def test_a_database_without_sweeps_lists_none(db):
    assert every_sweep(open_for_reading(db)) == []


def test_a_tag_of_a_sweep_accepts(db):
    fill_nights(db, {small(num_gpus=1): [100.0, 101.0]})
    engine = open_for_writing(db)
    target = listing.find(engine, "night-1")
    change.add_tags(engine, target, ["accepted"], NOON)
    sweeps = begun_sweeps(engine).values()
    engine.dispose()
    assert [sweep.name for sweep in sweeps if sweep.is_accepted] == ["night-1"]
    assert min(sweep.started_at for sweep in sweeps) == FIRST

"""Histories are read with their sweeps, oldest first."""

from store.commands import change
from store.database import open_for_writing
from store.reading import listing
from store.reading.sweeps import begun_sweeps
from tests.filled import NOON
from tests.nights import FIRST, fill_nights
from tests.specs import small
from tests.tables import asked


def test_a_tag_of_a_sweep_accepts(db):
    fill_nights(db, {small(num_gpus=1): [100.0, 101.0]})
    engine = open_for_writing(db)
    target = listing.find(engine, "night-1")
    change.annotate(engine, target, NOON, ["accepted"])
    sweeps = asked(begun_sweeps, engine).values()
    engine.dispose()
    assert [sweep.name for sweep in sweeps if sweep.is_accepted] == ["night-1"]
    assert min(sweep.started_at for sweep in sweeps) == FIRST

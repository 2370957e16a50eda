"""Which completed repeats count, in which order, and how long they held their devices."""

import pytest

from store.database import open_for_reading
from store.reading.completed_repeats import completed_repeats, last_attempt
from tests.filled import MACHINE, SOFTWARE_KEY, fill
from tests.specs import small


@pytest.fixture
def engine(tmp_path):
    url = str(tmp_path / "results.db")
    fill(url, [(small(), 2.0), (small(), 1.0), (small(num_gpus=2), None), (small(seed=2), 3.0)])
    return open_for_reading(url)


def speeds(
    engine, *ids: str, machine: str = MACHINE.key, software: str = SOFTWARE_KEY, after: int = 0
) -> dict[str, list[float]]:
    found = completed_repeats(engine, ids, machine, software, after=after)
    return {
        trial_id: [repeat.throughput for repeat in repeats] for trial_id, repeats in found.items()
    }


@pytest.mark.integration
def test_those_of_the_trials_asked_for_come_oldest_first(engine):
    assert speeds(engine, small().trial_id, small(num_gpus=2).trial_id) == {
        small().trial_id: [2.0, 1.0]
    }


def test_other_machines_and_software_do_not_count(engine):
    assert speeds(engine, small().trial_id, machine="another") == {}
    assert speeds(engine, small().trial_id, software="another") == {}


def test_from_now_on_nothing_of_before_counts(engine):
    assert last_attempt(engine) == 4
    assert speeds(engine, small().trial_id, after=1) == {small().trial_id: [1.0]}
    assert speeds(engine, small().trial_id, after=last_attempt(engine)) == {}

"""What earlier attempts say to a plan: which completed repeats count, who a race put out, and how trials ended when they last ran."""

import pytest

from store.database import open_for_reading
from store.reading.earlier import completed_repeats, last_attempt, raced_out
from store.writer import Writer
from tests.filled import MACHINE, NOON, SOFTWARE_KEY, begin, fill, make_empty
from tests.specs import small
from tests.tables import asked


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


def put_out(reason: str) -> list[str]:
    make_empty("r.db")
    writer = Writer("r.db")
    raced = begin(writer, {small(): 2}, name="race")
    raced.skip([repeat.repeat_id for repeat in raced.open_repeats()], reason)
    raced.end(NOON, finished=True)
    writer.close()
    return list(asked(raced_out, open_for_reading("r.db")).values())


def test_who_is_too_slow_was_put_out():
    reason = "race: 12.3 % behind ps_cpu after 2 repeats; the others would hardly make it lead"
    assert put_out(reason) == [reason]


@pytest.mark.parametrize(
    "reason",
    ["race: it ended as out_of_memory", "race: decided, enough repeats of it are completed"],
)
def test_who_failed_or_needs_no_more_repeats_was_not_put_out(reason):
    assert put_out(reason) == []

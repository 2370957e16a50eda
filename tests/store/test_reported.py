"""What a program reported of itself has no steps, and is neither damaged nor taken for a measurement of ours."""

from store.checks import check
from store.database import open_for_reading
from tests.filled import fill
from tests.specs import small
from tests.tables import query

UNKNOWN = (
    *("throughput_low", "throughput_high", "median_step_s", "jitter_s", "p90_step_s"),
    *("time_to_first_step_s", "trace_s", "first_step_s", "data_wait_share", "cpu_s"),
    *("peak_host_memory_bytes", "num_parameters"),
)
REPORTED = dict.fromkeys(UNKNOWN) | {"reported": True, "num_steps": 0, "steps": []}


def test_it_is_stored_without_steps_and_nothing_is_wrong_with_it(db):
    fill(db, [(small(), 123.5), (small(seed=2), 100.0)], details=[REPORTED, {}])
    assert list(check(db)) == []
    columns = "throughput, median_step_s, num_steps"
    _, rows = query(open_for_reading(db), f"SELECT {columns} FROM measurements WHERE reported")
    assert rows == [(123.5, None, 0)]
    _, rows = query(open_for_reading(db), "SELECT throughput FROM throughput")
    assert sorted(rows) == [(100.0,), (123.5,)]


def test_a_measurement_of_ours_without_its_steps_is_damaged(db):
    fill(db, [(small(), 123.5)], details=[REPORTED | {"reported": False}])
    assert [finding.what for finding in check(db)] == [
        "it has no steps; its measurement was made of 0"
    ]

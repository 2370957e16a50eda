"""An estimate rests on what was recorded on this machine, and says where nothing was."""

import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import pytest

from conf.schema import SweepConfig
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.text.wording import duration_text
from store.database import open_for_reading
from store.reading.earlier import recorded_durations_s
from sweeper.grid.plan import Plan, make_plan
from sweeper.grid.plan_view import Estimate
from sweeper.loop.backlog import Eta, Task
from tests.analysis.gpu_box import GPU_BOX
from tests.filled import MACHINE, fill
from tests.programs import fill_programs, program
from tests.specs import small


def record(durations_s: list[tuple[TrialSpec, float | None]]) -> Estimate:
    """Attempts that took so long on MACHINE, each beside one of 1000 s on another; None = failed after 5000 s."""
    results = [(spec, 1.0 if duration_s else None) for spec, duration_s in durations_s]
    fill("results.db", results, name="here")
    fill(
        "results.db",
        [(spec, 1.0) for spec, _ in durations_s],
        name="elsewhere",
        machine=replace(MACHINE, host="elsewhere"),
    )
    with sqlite3.connect("results.db") as connection:
        taken_s = [duration_s or 5000.0 for _, duration_s in durations_s] + [1000.0] * len(
            durations_s
        )
        connection.executemany(
            "UPDATE attempts SET duration_s = ? WHERE id = ?",
            [(s, i) for i, s in enumerate(taken_s, start=1)],
        )
    return Estimate.of(open_for_reading("results.db"), MACHINE.key)


def plan(*specs: TrialSpec, repeats: int = 1) -> Plan:
    return make_plan(specs, [], SweepConfig(repeats=repeats), {})


def test_the_database_tells_each_trials_median_on_one_machine():
    odd, even = small(seed=1), small(seed=2, num_gpus=2)
    record(
        [
            (odd, 30.0),
            (odd, 10.0),
            (odd, 11.0),
            (even, 4.0),
            (even, 2.0),
            (even, None),
            (small(seed=3), None),
        ]
    )
    rows = {
        row["trial_id"]: row
        for row in recorded_durations_s(open_for_reading("results.db"), MACHINE.key)
    }
    assert set(rows) == {odd.trial_id, even.trial_id}
    assert rows[odd.trial_id]["duration_s"] == 11.0
    assert rows[even.trial_id]["duration_s"] == 3.0
    assert (rows[even.trial_id]["num_gpus"], rows[even.trial_id]["num_attempts"]) == (2, 2)


def test_an_attempt_that_nobody_saw_end_tells_no_duration():
    record([(small(), 10.0), (small(), 30.0)])
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE attempts SET duration_s = NULL WHERE id = 1")
    (row,) = recorded_durations_s(open_for_reading("results.db"), MACHINE.key)
    assert (row["duration_s"], row["num_attempts"]) == (30.0, 1)


def test_a_trial_is_expected_to_take_what_it_took_before():
    estimate = record([(small(seed=1), 10.0), (small(seed=2), 20.0), (small(seed=3), 90.0)])
    assert estimate.expected_s(small(seed=3)) == 90.0
    assert estimate.expected_s(small(seed=4)) == 20.0
    for other in (small(num_gpus=2), small(model="vgg16"), small(device_kind=DeviceKind.GPU)):
        assert estimate.expected_s(other) is None


def test_other_work_has_no_estimate():
    estimate = record([(small(seed=1), 10.0)])
    for name, value in (("batch_size", 8), ("image_px", 64), ("num_steps", 1000)):
        assert estimate.expected_s(small(**{name: value})) is None, name


def test_a_program_is_expected_to_take_as_long_with_another_command_line():
    fill_programs([(program(), 1.0)])
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE attempts SET duration_s = 10.0")
    estimate = Estimate.of(open_for_reading("results.db"), GPU_BOX.key)
    assert estimate.expected_s(program(command="python3 other/train.py")) == 10.0


def test_repeats_count_and_unknown_attempts_are_distinguished():
    estimate = record([(small(seed=1), 10.0)])
    asked = plan(small(seed=1), small(seed=2), small(model="vgg16"), repeats=3)
    assert estimate.total(asked) == (60.0, 3)
    assert estimate.describe(asked) == (
        "9 attempts to run; expected: 60 s one after another for 6 of them; no recorded durations for the other 3: no estimate"
    )
    assert (
        estimate.describe(plan(small(seed=1)))
        == "1 attempt to run; expected: 10 s one after another"
    )


def test_without_records_there_is_no_estimate():
    assert "no recorded durations of such trials on this machine: no estimate" in Estimate.of(
        None, "x"
    ).describe(plan(small()))
    assert Estimate.of(None, "x").expected_s(small()) is None


def test_where_nothing_is_to_be_run_nothing_is_estimated():
    assert Estimate().describe(make_plan([small()], [], SweepConfig(), {small().trial_id: 1})) == ""


def waits(num_gpus: int, expected_s: float | None) -> Task:
    return Task(key=0, num_gpus=num_gpus, expected_s=expected_s, round=0)


def runs(expected_s: float | None) -> SimpleNamespace:
    """An attempt that has run for 25 s."""
    return SimpleNamespace(repeat=SimpleNamespace(task=waits(1, expected_s)), started_s=75.0)


@pytest.mark.parametrize(
    ("most_at_once", "waiting", "running", "seen_s", "left_s"),
    [
        (4, [], [], [], 0),
        (4, [waits(1, None)], [], [], None),
        (4, [waits(1, None)], [runs(None)], [7.0], 7),
        (4, [], [runs(30)], [], 5),
        (4, [], [runs(20)], [], 0),  # overdue
        (1, [waits(1, 10), waits(4, 20), waits(1, None)], [runs(30)], [], 10 + 20 + 20 + 5),
        (4, [waits(1, 10)] * 8, [], [], 20),
        (4, [waits(4, 10), waits(2, 10)], [], [], 15),
        (2, [waits(1, 10)] * 8, [], [], 40),
        (4, [waits(1, 10), waits(1, 50)], [], [], 50),
    ],
)
def test_what_is_left_is_shared_by_the_devices(most_at_once, waiting, running, seen_s, left_s):
    eta = Eta(4, most_at_once, lambda: 100.0)
    for duration_s in seen_s:
        eta.completed(duration_s)
    eta.update(waiting, running)
    assert eta.left_s() == left_s


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0.4 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3599, "1 h 00 min"),
        (11100, "3 h 05 min"),
        (187200, "2 d 4 h"),
    ],
)
def test_durations_are_reported_as_people_say_them(seconds, text):
    assert duration_text(seconds) == text

"""A second terminal sees from the database alone how far sweeps are."""

from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from scalemark.records.measurement import Outcome, State, Verdict
from store.database import open_for_reading
from store.errors import StoreError
from store.reading.sweeps import (
    FinishedRepeat,
    OrchestratorStatus,
    RunningRepeat,
    SweepStatus,
    sweep_status,
)
from tests.filled import NOON, PLACEMENT, PROCESS, attempt, begin, fill
from tests.specs import small

PACKED = replace(PLACEMENT, start="fork", devices=(0, 1), cores=(2, 3), shares_host=True)


def names(db: str, sweep: str | None = None) -> list[str]:
    return [status.name for status in sweep_status(open_for_reading(db), sweep)]


def test_a_running_sweep_shows_what_runs_has_finished_and_is_left(writer, db):
    two = small(num_gpus=2)
    ledger = begin(writer, {small(): 3, two: 2, small(model="resnet50"): 1}, wanted_repeats=3)
    done, failed, claimed, running, *_ = ledger.open_repeats()
    for repeat in (done, failed, claimed, running):
        ledger.claim(repeat)
    ledger.run(done, "/runs/1", PLACEMENT, NOON)
    ledger.finish(done.repeat_id, attempt(small(), 50.0))
    ledger.run(failed, "/runs/2", PLACEMENT, NOON)
    ledger.finish(failed.repeat_id, attempt(small(), None, repeat=2))
    ledger.run(running, "/runs/3", PACKED, NOON + timedelta(minutes=5))
    ledger.beat(NOON + timedelta(minutes=6))
    label = {
        "trial_id": small().trial_id,
        "model": "trivial",
        "strategy": "replicated_none",
        "num_gpus": 1,
        "hosts": 1,
        "device_kind": "cpu_device",
    }
    ended = {"attempt": 1, "duration_s": 9.5}
    failure = {
        "outcome": Outcome.FAILED,
        "message": "it broke",
        "throughput": None,
        "item": None,
        "verdict": None,
    }
    success = {
        "outcome": Outcome.COMPLETED,
        "message": "",
        "throughput": 50.0,
        "item": "images",
        "verdict": Verdict.VALID,
    }
    at = {"started_at": NOON + timedelta(minutes=5)}
    assert sweep_status(open_for_reading(db)) == [
        SweepStatus(
            name="first",
            reason="",
            command="sweep.py",
            started_at=NOON,
            finished_at=None,
            counts={
                State.COMPLETED: 1,
                State.FAILED: 1,
                State.CLAIMED: 1,
                State.RUNNING: 1,
                State.PENDING: 2,
            },
            orchestrator=OrchestratorStatus(
                process=PROCESS, heartbeat_at=NOON + timedelta(minutes=6), ended_at=None
            ),
            running=[
                RunningRepeat(
                    **label | {"trial_id": two.trial_id, "num_gpus": 2},
                    repeat=1,
                    attempt=1,
                    run_dir="/runs/3",
                    placement=PACKED,
                    **at,
                )
            ],
            last_finished=[
                FinishedRepeat(
                    **label, **ended, **failure, repeat=2, started_at=NOON + timedelta(minutes=2)
                ),
                FinishedRepeat(
                    **label, **ended, **success, repeat=1, started_at=NOON + timedelta(minutes=1)
                ),
            ],
            left_s=4 * 9.5,  # of two kinds nothing was completed yet
        )
    ]


def test_all_sweeps_that_have_not_ended_are_reported_else_the_newest(writer, db):
    engine = open_for_reading(db)
    assert sweep_status(engine) == []
    first = begin(writer, {small(): 1}, name="first")
    second = begin(writer, {small(): 1}, name="second")
    assert names(db) == ["first", "second"]
    first.end(NOON, finished=True)
    assert names(db) == ["second"]
    second.end(NOON, finished=True)
    assert names(db) == ["second"]
    begin(writer, {small(): 1}, name="first", started_at=NOON + timedelta(hours=1)).end(
        NOON, finished=False
    )
    assert names(db) == ["first"]  # continued since


def test_one_sweep_is_known_from_its_name_whether_it_has_ended_or_not(writer, db):
    begin(writer, {small(): 1}, name="first").end(NOON + timedelta(hours=1), finished=True)
    begin(writer, {small(): 1}, name="second")
    (status,) = sweep_status(open_for_reading(db), "first")
    assert (status.name, status.finished_at) == ("first", NOON + timedelta(hours=1))
    assert status.orchestrator is not None
    assert status.orchestrator.ended_at == NOON + timedelta(hours=1)
    with pytest.raises(StoreError, match="third: no such sweep; the newest are second, first"):
        sweep_status(open_for_reading(db), "third")


def test_the_orchestrator_shown_is_the_one_that_continued_the_sweep(writer, db):
    begin(writer, {small(): 1}).end(NOON, finished=False)
    begin(writer, {small(): 1}, process=replace(PROCESS, pid=77))
    (status,) = sweep_status(open_for_reading(db))
    assert status.orchestrator is not None
    assert (status.orchestrator.process.pid, status.orchestrator.ended_at) == (77, None)


def test_attempts_whose_end_nobody_saw_do_not_count_in_the_pace(writer, db):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    ledger.run(repeat, "/runs/1", PLACEMENT, NOON)
    ledger.finish(repeat.repeat_id, replace(attempt(small(), 5.0), duration_s=None))
    (status,) = sweep_status(open_for_reading(db))
    assert (status.left_s, status.last_finished[0].duration_s) == (None, None)


def test_only_the_last_few_are_reported_newest_first(db):
    fill(db, [(small(), float(number)) for number in range(1, 9)])
    (status,) = sweep_status(open_for_reading(db))
    assert [finished.throughput for finished in status.last_finished] == [8.0, 7.0, 6.0, 5.0, 4.0]


def test_it_can_be_asked_while_others_write(writer, db):
    """Through the engine of a writer too: reading takes no lock."""
    begin(writer, {small(): 1})
    with writer.engine.begin() as connection:
        connection.execute(sa.text("UPDATE sweeps SET reason = 'being written'"))
        for engine in (open_for_reading(db), writer.engine):
            (status,) = sweep_status(engine)
            assert status.reason == ""


@pytest.mark.parametrize("db", ["sqlite"], indirect=True)
def test_what_a_big_database_holds_is_found_by_an_index(writer, db):
    begin(writer, {small(): 1})
    engine = open_for_reading(db)
    asked = []
    sa.event.listen(
        engine,
        "before_cursor_execute",
        lambda _c, _u, statement, parameters, *_: asked.append((statement, parameters)),
    )
    sweep_status(engine)
    with writer.engine.connect() as connection:
        for statement, parameters in asked:
            if "repeats" in statement or "attempts" in statement:
                plan = connection.exec_driver_sql(
                    f"EXPLAIN QUERY PLAN {statement}", tuple(parameters)
                ).all()
                assert not [row[3] for row in plan if row[3].startswith("SCAN")], statement

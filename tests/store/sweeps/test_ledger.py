"""Every change of a repeat's state: who may make it, who may not, and how a repeat stands after it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from scalemark.records.measurement import Outcome, State
from scalemark.records.trial import TrialSpec
from store.errors import StoreError
from store.ledger import (
    Abandoned,
    ClaimResult,
    Ledger,
    LostError,
    OpenRepeat,
    abandoned,
    close_abandoned,
    end_abandoned,
    unended,
)
from store.reading import queries
from store.schema import SweepRow
from store.writer import Writer
from tests.filled import ENVIRONMENT, MACHINE, NOON, PLACEMENT, PROCESS, attempt, begin
from tests.specs import small
from tests.tables import list_attempts

OTHER_SOFTWARE = ENVIRONMENT | {"python": "3.12.1"}


def states(writer: Writer) -> list[str]:
    return [
        row["state"] for row in queries.rows(writer.engine, "SELECT state FROM repeats ORDER BY id")
    ]


def reasons(writer: Writer) -> list[str]:
    rows = queries.rows(writer.engine, "SELECT reason FROM repeats ORDER BY id")
    return [row["reason"] for row in rows]


def everything(writer: Writer) -> list[object]:
    """What may not change where nothing is to be written."""
    tables = (
        "repeats",
        "attempts",
        "measurements",
        "step_arrays",
        "orchestrators",
        "sweeps",
    )
    return [queries.rows(writer.engine, f"SELECT * FROM {table}") for table in tables]


def start(ledger: Ledger, repeat: OpenRepeat, at: datetime = NOON) -> int:
    assert ledger.claim(repeat) is ClaimResult.TAKEN
    number = ledger.run(repeat, "/runs/x", PLACEMENT, at)
    ledger.started(repeat.repeat_id, 1000 + repeat.repeat_id, 5)
    return number


def run(
    ledger: Ledger,
    repeat: OpenRepeat,
    spec: TrialSpec,
    throughput: float | None = 5.0,
    again: bool = False,
) -> None:
    number = start(ledger, repeat)
    ledger.finish(
        repeat.repeat_id,
        attempt(spec, throughput, repeat=repeat.repeat, number=number),
        again=again,
    )


def kill(writer: Writer, ledger: Ledger) -> list[Abandoned]:
    """What others find of an orchestrator that was killed."""
    return abandoned(writer.engine, [ledger.orchestrator_id])


def interrupted(spec: TrialSpec, number: int = 1):
    return replace(
        attempt(spec, None, number=number, outcome=Outcome.INTERRUPTED),
        exit_code=None,
        duration_s=None,
    )


def test_every_change_of_a_repeat_is_written_down(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    assert (repeat.repeat, repeat.num_attempts, states(writer)) == (1, 0, ["pending"])
    assert ledger.claim(repeat) is ClaimResult.TAKEN
    assert (states(writer), ledger.open_repeats()) == (["claimed"], [])
    assert ledger.run(repeat, "/runs/x", PLACEMENT, NOON) == 1
    assert states(writer) == ["running"]
    ledger.finish(repeat.repeat_id, attempt(small(), 5.0))
    assert states(writer) == ["completed"]


@pytest.mark.parametrize(
    "outcome", [outcome for outcome in Outcome if outcome is not Outcome.COMPLETED]
)
def test_an_attempt_leaves_its_outcome_as_the_state(writer, outcome):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    start(ledger, repeat)
    ledger.finish(repeat.repeat_id, attempt(small(), None, outcome=outcome))
    assert states(writer) == [outcome]
    assert ledger.open_repeats() == []


def test_a_retry_is_pending_and_its_attempts_are_numbered(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    run(ledger, repeat, small(), None, again=True)
    (repeat,) = ledger.open_repeats()
    assert repeat.num_attempts == 1
    run(ledger, repeat, small())
    assert [
        (row["attempt"], row["outcome"])
        for row in queries.rows(writer.engine, "SELECT * FROM attempts ORDER BY id")
    ] == [(1, "failed"), (2, "completed")]


def test_a_claim_can_be_given_back(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    ledger.give_back(repeat.repeat_id)
    assert ledger.open_repeats() == [repeat]
    start(ledger, repeat)
    before = everything(writer)
    ledger.give_back(repeat.repeat_id)  # it runs: too late
    assert everything(writer) == before


def test_pending_repeats_are_skipped_and_others_left_as_they_are(writer):
    specs = [small(seed=seed) for seed in range(1, 1002)]
    ledger = begin(writer, dict.fromkeys(specs, 1))
    opened = ledger.open_repeats()
    run(ledger, opened[0], specs[0])
    start(ledger, opened[1])
    ledger.skip((repeat.repeat_id for repeat in opened), "out_of_memory at batch_size=64")
    assert states(writer) == ["completed", "running", *["skipped"] * 999]
    reasons = queries.rows(
        writer.engine, "SELECT reason, count(*) AS num FROM repeats GROUP BY reason ORDER BY num"
    )
    assert reasons == [
        {"reason": "", "num": 2},
        {"reason": "out_of_memory at batch_size=64", "num": 999},
    ]
    assert ledger.claim(opened[-1]) is ClaimResult.GONE


def test_repeats_are_opened_in_the_order_of_the_plan(writer):
    ledger = begin(writer, {small(seed=3): 2, small(seed=1): 1, small(seed=2): 0})
    asked_for = [small(seed=3).trial_id] * 2 + [small(seed=1).trial_id]
    assert [repeat.trial_id for repeat in ledger.open_repeats()] == asked_for
    assert [repeat.repeat for repeat in ledger.open_repeats()] == [1, 2, 1]


# Two sweeps that want the same trial


def two(writer: Writer, wanted: int, **second: object) -> tuple[Ledger, Ledger]:
    ours = begin(writer, {small(): wanted}, name="ours", wanted_repeats=wanted)
    theirs = begin(writer, {small(): wanted}, name="theirs", wanted_repeats=wanted, **second)  # type: ignore[arg-type]
    return ours, theirs


def test_a_repeat_of_another_sweep_is_busy_and_gone_once_completed(writer):
    ours, theirs = two(writer, 1)
    (mine,), (yours,) = ours.open_repeats(), theirs.open_repeats()
    assert ours.claim(mine) is ClaimResult.TAKEN
    assert theirs.claim(yours) is ClaimResult.BUSY
    number = ours.run(mine, "/runs/x", PLACEMENT, NOON)
    assert theirs.claim(yours) is ClaimResult.BUSY
    assert theirs.open_repeats() == [yours]
    ours.finish(mine.repeat_id, attempt(small(), 5.0, number=number))
    assert theirs.claim(yours) is ClaimResult.GONE
    assert states(writer) == ["completed", "skipped"]
    assert reasons(writer) == ["", "enough repeats of it are completed"]


def test_a_repeat_that_failed_in_another_sweep_is_run(writer):
    ours, theirs = two(writer, 1)
    (mine,), (yours,) = ours.open_repeats(), theirs.open_repeats()
    run(ours, mine, small(), None)
    assert theirs.claim(yours) is ClaimResult.TAKEN


def test_two_sweeps_share_the_repeats_of_a_trial(writer):
    ours, theirs = two(writer, 2)
    first, second = ours.open_repeats()
    third, fourth = theirs.open_repeats()
    run(ours, first, small())
    assert theirs.claim(third) is ClaimResult.TAKEN  # one completed, one to go
    assert ours.claim(second) is ClaimResult.BUSY
    theirs.run(third, "/runs/x", PLACEMENT, NOON)
    theirs.finish(third.repeat_id, attempt(small(), 6.0))
    assert ours.claim(second) is ClaimResult.GONE
    assert theirs.claim(fourth) is ClaimResult.GONE


@pytest.mark.parametrize(
    "second",
    [{"machine": replace(MACHINE, host="other")}, {"environment": OTHER_SOFTWARE}, {"rerun": True}],
    ids=["another machine", "other software", "rerun"],
)
def test_a_repeat_elsewhere_or_asked_for_once_more_does_not_count(writer, second):
    ours, theirs = two(writer, 1, **second)
    (mine,), (yours,) = ours.open_repeats(), theirs.open_repeats()
    ours.claim(mine)
    assert theirs.claim(yours) is ClaimResult.TAKEN
    ours.give_back(mine.repeat_id)
    theirs.give_back(yours.repeat_id)
    run(ours, mine, small())
    assert theirs.claim(yours) is ClaimResult.TAKEN


def test_what_a_dead_orchestrator_ran_blocks_others_until_it_is_closed(writer):
    ours, theirs = two(writer, 1)
    (mine,), (yours,) = ours.open_repeats(), theirs.open_repeats()
    start(ours, mine)
    (left,) = kill(writer, ours)
    assert theirs.claim(yours) is ClaimResult.BUSY
    assert close_abandoned(writer.engine, left, interrupted(small()))
    assert theirs.claim(yours) is ClaimResult.TAKEN


def test_what_an_orchestrator_had_when_it_ended_blocks_nobody(writer):
    ours, theirs = two(writer, 1)
    (mine,), (yours,) = ours.open_repeats(), theirs.open_repeats()
    ours.claim(mine)
    ours.end(NOON, finished=False)  # nobody looks after it any more
    assert theirs.claim(yours) is ClaimResult.TAKEN


# Who was thought dead and comes back


def test_who_comes_back_after_its_attempt_was_closed_changes_nothing(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    start(ledger, repeat)
    (left,) = kill(writer, ledger)
    assert close_abandoned(writer.engine, left, interrupted(small()))
    end_abandoned(writer.engine, [ledger.orchestrator_id], NOON)
    before = everything(writer)
    taken_for_dead = "another orchestrator took this one for dead; repeat the command"
    with pytest.raises(LostError, match=taken_for_dead):
        ledger.finish(repeat.repeat_id, attempt(small(), 5.0))
    with pytest.raises(LostError, match=taken_for_dead):
        ledger.started(repeat.repeat_id, 77, 7)
    with pytest.raises(LostError, match=taken_for_dead):
        ledger.run(repeat, "/runs/y", PLACEMENT, NOON)
    with pytest.raises(LostError, match=taken_for_dead):
        ledger.claim(replace(repeat, num_attempts=1))
    with pytest.raises(LostError, match=taken_for_dead):
        ledger.beat(NOON)
    ledger.give_back(repeat.repeat_id)
    ledger.end(NOON + timedelta(hours=1), finished=True)
    assert everything(writer) == before


def test_who_comes_back_after_its_sweep_was_continued_changes_nothing(writer):
    lost = begin(writer, {small(): 1, small(seed=2): 1})
    first, second = lost.open_repeats()
    start(lost, first)
    (left,) = kill(writer, lost)
    close_abandoned(writer.engine, left, interrupted(small()))
    end_abandoned(writer.engine, [lost.orchestrator_id], NOON)
    ledger = begin(writer, {small(): 1, small(seed=2): 1})
    opened = ledger.open_repeats()
    start(ledger, opened[0])
    before = everything(writer)
    assert lost.open_repeats() == []
    for number in (1, 2):  # its own, and that of who continues
        with pytest.raises(LostError):
            lost.finish(first.repeat_id, attempt(small(), 5.0, number=number))
    with pytest.raises(LostError):
        lost.started(first.repeat_id, 77, 7)
    lost.skip([second.repeat_id], "late")
    lost.end(NOON, finished=True)
    assert everything(writer) == before


def test_an_attempt_of_another_number_is_refused(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    start(ledger, repeat)
    with pytest.raises(LostError):
        ledger.finish(repeat.repeat_id, attempt(small(), 5.0, number=2))
    ledger.finish(repeat.repeat_id, attempt(small(), None, number=1), again=True)
    ledger.claim(repeat)
    before = everything(writer)
    with pytest.raises(LostError):
        ledger.run(
            repeat, "/runs/x", PLACEMENT, NOON
        )  # it remembers no attempt: its number would be taken
    assert everything(writer) == before


# What dead orchestrators leave


def test_what_was_killed_is_found_with_all_that_is_needed_to_close_it(writer):
    ledger = begin(writer, {small(seed=seed): 1 for seed in (1, 2, 3)})
    running, claimed, _pending = ledger.open_repeats()
    start(ledger, running, NOON + timedelta(minutes=1))
    ledger.claim(claimed)
    found, second = kill(writer, ledger)
    assert found == Abandoned(
        repeat_id=running.repeat_id,
        sweep_id=ledger.sweep_id,
        trial_id=running.trial_id,
        repeat=1,
        attempt=1,
        machine_id=ledger.machine_id,
        owner=PROCESS,
        orchestrator_id=ledger.orchestrator_id,
        state=State.RUNNING,
        started_at=NOON + timedelta(minutes=1),
        run_dir="/runs/x",
        placement=PLACEMENT,
        pid=1000 + running.repeat_id,
        start_ticks=5,
    )
    assert (second.repeat_id, second.state, second.run_dir, second.pid) == (
        claimed.repeat_id,
        State.CLAIMED,
        None,
        None,
    )
    assert abandoned(writer.engine, []) == []


def test_a_second_attempt_is_not_found_with_the_process_of_the_first(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    run(ledger, repeat, small(), None, again=True)
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    ledger.run(repeat, "/runs/y", PLACEMENT, NOON)  # and is killed before the process is started
    (left,) = kill(writer, ledger)
    assert (left.attempt, left.run_dir, left.pid, left.start_ticks) == (2, "/runs/y", None, None)


def test_an_abandoned_attempt_that_had_completed_is_completed(writer):
    ledger = begin(writer, {small(): 1})
    start(ledger, *ledger.open_repeats())
    (left,) = kill(writer, ledger)
    finished = replace(attempt(small(), 5.0), exit_code=None, duration_s=None)
    assert close_abandoned(writer.engine, left, finished)
    assert states(writer) == ["completed"]
    (row,) = list_attempts(writer.engine)
    assert (row["outcome"], row["throughput"], row["duration_s"]) == ("completed", 5.0, None)
    assert len(queries.rows(writer.engine, "SELECT * FROM step_samples")) == 3


def test_an_abandoned_attempt_is_kept_and_its_repeat_is_pending(writer):
    ledger = begin(writer, {small(): 1})
    start(ledger, *ledger.open_repeats())
    (left,) = kill(writer, ledger)
    assert close_abandoned(writer.engine, left, interrupted(small()))
    assert states(writer) == ["pending"]
    assert [row["outcome"] for row in list_attempts(writer.engine)] == ["interrupted"]


def test_an_abandoned_attempt_that_had_failed_stays_failed(writer):
    ledger = begin(writer, {small(): 1})
    start(ledger, *ledger.open_repeats())
    (left,) = kill(writer, ledger)
    assert close_abandoned(writer.engine, left, attempt(small(), None))
    assert states(writer) == ["failed"]


def test_an_abandoned_claim_is_pending_again_without_an_attempt(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    (left,) = kill(writer, ledger)
    assert close_abandoned(writer.engine, left, None)
    assert (states(writer), list_attempts(writer.engine)) == (["pending"], [])


def test_an_abandoned_claim_is_not_taken_for_an_earlier_attempt(writer):
    ledger = begin(writer, {small(): 1})
    run(ledger, *ledger.open_repeats(), small(), None, again=True)
    ledger.claim(*ledger.open_repeats())
    (left,) = kill(writer, ledger)
    assert (left.state, left.attempt, left.run_dir, left.started_at, left.placement, left.pid) == (
        State.CLAIMED,
        1,
        *[None] * 4,
    )
    assert close_abandoned(writer.engine, left, None)
    assert states(writer) == ["pending"]


def test_what_became_of_a_running_attempt_must_be_known(writer):
    ledger = begin(writer, {small(): 1})
    start(ledger, *ledger.open_repeats())
    (left,) = kill(writer, ledger)
    with pytest.raises(ValueError, match="it was running; wanted what its run folder held"):
        close_abandoned(writer.engine, left, None)


def test_two_who_close_the_same_at_once_close_it_once(writer):
    for number in range(1, 9):
        ledger = begin(writer, {small(): 1}, name=f"sweep{number}", rerun=True)
        start(ledger, *ledger.open_repeats())
        (left,) = kill(writer, ledger)
        with ThreadPoolExecutor(4) as pool:
            closing = [
                pool.submit(close_abandoned, writer.engine, left, interrupted(small()))
                for _ in range(4)
            ]
        assert sorted(future.result() for future in closing) == [False, False, False, True]
        assert len(list_attempts(writer.engine)) == number


def test_what_has_changed_since_it_was_found_is_not_closed(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    ledger.claim(repeat)
    (claimed,) = kill(writer, ledger)
    ledger.run(repeat, "/runs/x", PLACEMENT, NOON)  # it lives after all
    (running,) = kill(writer, ledger)
    ledger.finish(repeat.repeat_id, attempt(small(), None), again=True)
    run(ledger, *ledger.open_repeats(), small(), None, again=True)
    start(ledger, *ledger.open_repeats())
    before = everything(writer)
    assert not close_abandoned(writer.engine, claimed, None)
    assert not close_abandoned(writer.engine, running, interrupted(small()))
    assert everything(writer) == before


def test_who_took_more_since_it_was_looked_at_is_not_ended(writer):
    ledger = begin(writer, {small(): 1})
    (repeat,) = ledger.open_repeats()
    assert kill(writer, ledger) == []
    ledger.claim(repeat)
    end_abandoned(writer.engine, [ledger.orchestrator_id], NOON)
    assert [found[0] for found in unended(writer.engine)] == [ledger.orchestrator_id]
    (left,) = kill(writer, ledger)
    close_abandoned(writer.engine, left, None)
    end_abandoned(writer.engine, [ledger.orchestrator_id], NOON)
    assert unended(writer.engine) == []


def test_a_heartbeat_tells_that_an_orchestrator_lives_until_it_ends(writer):
    ledger = begin(writer, {small(): 1})
    assert unended(writer.engine) == [(ledger.orchestrator_id, PROCESS, NOON)]
    ledger.beat(NOON + timedelta(seconds=10))
    assert unended(writer.engine) == [
        (ledger.orchestrator_id, PROCESS, NOON + timedelta(seconds=10))
    ]
    ledger.end(NOON + timedelta(seconds=20), finished=True)
    assert unended(writer.engine) == []
    (sweep,) = queries.selected(writer.engine, sa.select(SweepRow.finished_at))
    assert sweep["finished_at"] == NOON + timedelta(seconds=20)


# The same name once more


def test_a_name_that_a_live_orchestrator_runs_is_refused(writer):
    begin(writer, {small(): 1})
    before = everything(writer)
    message = (
        r"sweep\.name=first: process 4711 on testbox is running a sweep of this name; wait for it .*, or choose another name\. "
        r"If it was killed: it cannot be looked at from here, and is taken for dead in \d+ s; repeat the command then, or now with "
        r"another sweep\.name \(what is finished is not run again\)$"
    )
    with pytest.raises(StoreError, match=message):
        begin(writer, {small(): 1}, alive=True)
    assert everything(writer) == before


def test_who_died_after_others_were_looked_for_is_reported(writer):
    ledger = begin(writer, {small(): 1})
    start(ledger, *ledger.open_repeats())
    before = everything(writer)
    with pytest.raises(
        StoreError,
        match=r"process 4711 on testbox was running .* and was killed just now; repeat the command",
    ):
        begin(writer, {small(): 1})
    assert everything(writer) == before


def close(writer: Writer, ledger: Ledger, by_trial: dict[str, TrialSpec]) -> None:
    for left in kill(writer, ledger):
        finished = interrupted(by_trial[left.trial_id], left.attempt) if left.run_dir else None
        assert close_abandoned(writer.engine, left, finished)
    end_abandoned(writer.engine, [ledger.orchestrator_id], NOON)


def test_a_killed_sweep_is_continued_with_what_is_unfinished(writer):
    specs = [small(seed=seed) for seed in (1, 2, 3, 4)]
    killed = begin(writer, dict.fromkeys(specs, 1))
    done, failed, running, _pending = killed.open_repeats()
    run(killed, done, specs[0])
    run(killed, failed, specs[1], None)
    start(killed, running)
    close(writer, killed, {spec.trial_id: spec for spec in specs})
    ledger = begin(writer, {spec: int(spec != specs[0]) for spec in specs})
    opened = [
        (repeat.trial_id, repeat.repeat, repeat.num_attempts) for repeat in ledger.open_repeats()
    ]
    assert opened == [
        (specs[1].trial_id, 1, 1),
        (specs[2].trial_id, 1, 1),
        (specs[3].trial_id, 1, 0),
    ]
    for repeat, spec in zip(ledger.open_repeats(), specs[1:], strict=True):
        run(ledger, repeat, spec)
    ledger.end(NOON, finished=True)
    assert states(writer) == ["completed"] * 4


def test_a_continued_sweep_skips_what_another_completed_meanwhile(writer):
    specs = [small(seed=seed) for seed in (1, 2)]
    begin(writer, dict.fromkeys(specs, 1)).end(NOON, finished=False)
    other = begin(writer, {specs[0]: 1}, name="other")
    run(other, *other.open_repeats(), specs[0])
    ledger = begin(writer, {specs[0]: 0, specs[1]: 1})
    assert [repeat.trial_id for repeat in ledger.open_repeats()] == [specs[1].trial_id]
    assert (states(writer)[0], reasons(writer)[0]) == (
        "skipped",
        "enough repeats of it are completed",
    )
    ledger.end(NOON, finished=False)
    begin(writer, {specs[0]: 0, specs[1]: 1})
    assert states(writer)[0] == "skipped"


def test_a_sweep_continued_with_more_repeats_or_trials_opens_them(writer):
    first, second = small(seed=1), small(seed=2)
    ledger = begin(writer, {first: 1})
    run(ledger, *ledger.open_repeats(), first)
    ledger.end(NOON, finished=True)
    ledger = begin(writer, {second: 1, first: 2}, wanted_repeats=3)
    assert [(repeat.trial_id, repeat.repeat) for repeat in ledger.open_repeats()] == [
        (second.trial_id, 1),
        (first.trial_id, 2),
        (first.trial_id, 3),
    ]


def test_a_sweep_continued_without_a_trial_skips_its_pending_repeats(writer):
    begin(writer, {small(seed=1): 1, small(seed=2): 1}).end(NOON, finished=False)
    ledger = begin(writer, {small(seed=2): 1})
    assert [repeat.trial_id for repeat in ledger.open_repeats()] == [small(seed=2).trial_id]
    assert reasons(writer) == ["the sweep was continued without this trial", ""]
    ledger.end(NOON, finished=False)
    ledger = begin(writer, {small(seed=2): 1, small(seed=1): 1})
    assert [repeat.trial_id for repeat in ledger.open_repeats()] == [
        small(seed=2).trial_id,
        small(seed=1).trial_id,
    ]


@pytest.mark.parametrize("db", ["sqlite"], indirect=True)
def test_what_is_asked_often_is_found_by_an_index(writer):
    """A scan of all repeats at every claim would make ten thousand of them slow."""
    ledger = begin(writer, {small(): 1})
    asked: list[tuple[str, Sequence[object]]] = []

    def note(
        _c: object, _u: object, statement: str, parameters: Sequence[object], *_: object
    ) -> None:
        asked.append((statement, parameters))

    sa.event.listen(writer.engine, "before_cursor_execute", note)
    (repeat,) = ledger.open_repeats()
    start(ledger, repeat)
    kill(writer, ledger)
    ledger.finish(repeat.repeat_id, attempt(small(), 5.0))
    ledger.beat(NOON)
    sa.event.remove(writer.engine, "before_cursor_execute", note)
    with writer.engine.connect() as connection:
        for statement, parameters in asked:
            if statement.startswith(("SELECT", "UPDATE")):
                plan = connection.exec_driver_sql(
                    f"EXPLAIN QUERY PLAN {statement}", tuple(parameters)
                ).all()
                assert not [row[3] for row in plan if row[3].startswith("SCAN")], statement

"""Agents on many hosts share a sweep: each repeat is somebody's or nobody's, and who is dead by the database's clock has nothing."""

import json
import re
import traceback
from contextlib import closing
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from scalemark.host.processes import HEARTBEAT_TIMEOUT, this_process
from scalemark.records.attempt import ProcessIdentity
from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome, State
from scalemark.run_folder import RunFolder
from store.checks import check
from store.database import open_for_reading, writing
from store.errors import AwayError, LockedError, StoreError
from store.reading import queries
from store.sweeps.ledger import Claim, Ledger, LostError, OpenRepeat
from store.sweeps.shared import (
    LEASE_OVER,
    SEEN_DEAD,
    SharedLedger,
    end_dead,
    ended_with_something_in_flight,
    shared_status,
)
from store.sweeps.sweep_status import sweep_status
from store.writer import Writer
from sweeper.live.status import snapshot_of
from sweeper.running.recover import MOST_LOST, expire, recover
from tests.filled import (
    MACHINE,
    NOON,
    PLACEMENT,
    PROCESS,
    SOFTWARE_KEY,
    STEPS,
    attempt,
    begin,
    fill,
    measurement,
)
from tests.specs import small
from tests.store.agents import SETTINGS, join, now, share

ONE, TWO, FOUR = small(), small(num_gpus=2), small(num_gpus=4)
HERE = this_process()
DEAD_HERE = replace(HERE, start_ticks=HERE.start_ticks + 1)


@pytest.fixture
def writer(postgresql_template_url: str):
    with closing(Writer(postgresql_template_url)) as opened:
        yield opened


def rows(writer: Writer, sql: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in queries.rows(writer.engine, sql)]


def states(writer: Writer) -> list[tuple[object, ...]]:
    return rows(writer, "SELECT state, orchestrator_id FROM repeats ORDER BY id")


def run(ledger: SharedLedger, repeat: OpenRepeat, folder: str = "/runs/x") -> int:
    assert ledger.claim(repeat, now()) is Claim.TAKEN
    return ledger.run(repeat, folder, PLACEMENT, now())


def take_and_run(ledger: SharedLedger, folder: str = "/runs/x") -> tuple[OpenRepeat, int]:
    repeat = ledger.take(8)
    assert repeat
    return repeat, run(ledger, repeat, folder)


def be_silent(writer: Writer, ledger: Ledger, silent_s: float = 61.0) -> None:
    """As if its last sign were so long ago."""
    earlier = "UPDATE orchestrators SET heartbeat_at = heartbeat_at - make_interval(secs => :silent_s) WHERE id = :id"
    with writer.engine.begin() as connection:
        connection.execute(sa.text(earlier), {"silent_s": silent_s, "id": ledger.orchestrator_id})


# Taking


def test_agents_take_in_rounds_and_widest_first_what_fits_them(writer):
    share(writer, {ONE: 2, TWO: 1, FOUR: 1})
    agent = join(writer)
    trial_of = {spec.trial_id: spec.num_gpus for spec in (ONE, TWO, FOUR)}
    taken = [agent.take(most) for most in (2, 8, 8, 8, 8)]
    reported = [(trial_of[repeat.trial_id], repeat.repeat) if repeat else None for repeat in taken]
    assert reported == [(2, 1), (4, 1), (1, 1), (1, 2), None]
    assert rows(
        writer, "SELECT turn FROM repeats ORDER BY trial_id, repeat"
    )  # numbered, and read by nobody else
    assert {state for state, _ in states(writer)} == {"claimed"}


def test_trials_of_several_hosts_are_taken_by_agents_of_as_many(writer):
    spec = small(num_gpus=4, hosts=2, variable_update="distributed_replicated")
    share(writer, {spec: 1})
    agent = join(writer)
    assert agent.take(8) is None
    assert agent.take(8, hosts=4) is None
    assert agent.take(2, hosts=2) is None
    assert agent.take(4, hosts=2) is not None


def test_what_was_taken_is_claimed_already_and_ends_as_any_other(writer):
    share(writer, {ONE: 1})
    agent = join(writer)
    repeat, number = take_and_run(agent)
    agent.started(repeat.repeat_id, 4711, 1)
    agent.finish(repeat.repeat_id, attempt(ONE, 50.0, number=number), now())
    agent.end(now(), finished=True)
    assert states(writer) == [("completed", agent.orchestrator_id)]
    assert rows(writer, "SELECT finished_at IS NOT NULL FROM sweeps") == [(True,)]
    reported = "SELECT state FROM events ORDER BY number"
    assert [state for (state,) in rows(writer, reported)] == [
        "pending",
        "claimed",
        "running",
        "completed",
    ]


def test_what_is_given_back_or_interrupted_is_open_to_others(writer):
    share(writer, {ONE: 1})
    first, second = join(writer), join(writer)
    taken = first.take(8)
    assert taken
    assert second.take(8) is None
    first.give_back(taken.repeat_id, now())
    assert states(writer) == [("pending", None)]
    repeat, number = take_and_run(second)
    second.finish(
        repeat.repeat_id, attempt(ONE, None, number=number, outcome=Outcome.INTERRUPTED), now()
    )
    assert states(writer) == [("pending", None)]
    again, number = take_and_run(first)
    assert (again.repeat_id, number) == (repeat.repeat_id, 2)


def test_what_is_tried_again_stays_with_its_agent_until_that_ends(writer):
    share(writer, {ONE: 1})
    first, second = join(writer), join(writer)
    repeat, number = take_and_run(first)
    first.finish(
        repeat.repeat_id,
        attempt(ONE, None, number=number),
        now(),
        again="tried again after crashed",
    )
    assert states(writer) == [("pending", first.orchestrator_id)]
    assert second.take(8) is None
    assert run(first, first.open_repeats()[0]) == 2
    first.finish(
        repeat.repeat_id, attempt(ONE, None, number=2), now(), again="tried again after crashed"
    )
    first.end(now(), finished=False)
    taken = second.take(8)
    assert taken
    assert taken.num_attempts == 2


def test_an_agent_that_ends_leaves_nothing_claimed_and_takes_nothing_more(writer):
    share(writer, {ONE: 2})
    agent = join(writer)
    assert agent.take(8)
    agent.end(now(), finished=True)
    assert states(writer) == [("pending", None)] * 2
    assert rows(writer, "SELECT finished_at FROM sweeps") == [(None,)]  # there is something left
    for act in (lambda: agent.take(8), lambda: agent.beat(now())):
        with pytest.raises(LostError):
            act()


def test_what_other_sweeps_have_completed_or_are_running_is_not_taken(writer):
    share(writer, {ONE: 1, TWO: 1})
    agent = join(writer)
    other = begin(writer, {ONE: 1}, name="other", alive=True)
    (theirs,) = other.open_repeats()
    assert other.claim(theirs, NOON) is Claim.TAKEN
    other.beat(now())
    assert [one.trial_id if one else None for one in (agent.take(8), agent.take(8))] == [
        TWO.trial_id,
        None,
    ]
    number = other.run(theirs, "/runs/y", PLACEMENT, NOON)
    other.finish(theirs.repeat_id, attempt(ONE, 50.0, number=number), NOON)
    assert agent.take(8) is None
    agent.skip_enough()
    assert ("skipped", None) in states(writer)


def test_what_the_dead_of_other_sweeps_were_running_is_in_nobodys_way(writer):
    share(writer, {ONE: 1})
    one_host = begin(writer, {ONE: 1}, name="one host", alive=True)
    (theirs,) = one_host.open_repeats()
    assert one_host.claim(theirs, NOON) is Claim.TAKEN
    one_host.beat(now())
    share(writer, {ONE: 1}, name="shared", rerun=True)
    other = join(writer, name="shared")
    assert other.take(8)
    agent = join(writer)
    assert agent.take(8) is None
    be_silent(writer, one_host, HEARTBEAT_TIMEOUT.total_seconds() + 1)
    assert agent.take(8) is None
    be_silent(writer, other)
    assert agent.take(8)


def test_a_claim_whose_answer_was_lost_is_given_back_with_the_next_beat(writer):
    """As when the answer of the database was lost."""
    share(writer, {ONE: 1, TWO: 1, FOUR: 1})
    agent = join(writer)
    known = agent.take(4)
    assert known
    assert known.spec == FOUR
    lost = join(writer).take(2)
    assert lost
    with writer.engine.begin() as connection:
        theirs = "UPDATE repeats SET orchestrator_id = :me WHERE id = :id"
        connection.execute(sa.text(theirs), {"me": agent.orchestrator_id, "id": lost.repeat_id})
    agent.beat(now())
    assert sorted(states(writer), key=str) == [
        ("claimed", agent.orchestrator_id),
        ("pending", None),
        ("pending", None),
    ]
    assert run(agent, known) == 1


def test_what_could_not_be_given_back_is_given_back_with_the_next_sign(writer):
    share(writer, {ONE: 1}, settings={**SETTINGS, "lease_s": 1.0})
    agent = join(writer)
    taken = agent.take(8)
    assert taken
    url = writer.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(
        psycopg.connect(url)
    ) as other:  # who may stand still with its lock for as long as it likes
        other.execute("SELECT id FROM repeats FOR UPDATE")
        with pytest.raises(LockedError):
            agent.give_back(taken.repeat_id, now())
    assert states(writer) == [("claimed", agent.orchestrator_id)]
    agent.beat(now())
    assert states(writer) == [("pending", None)]


def test_what_was_to_be_tried_again_can_be_left_to_others(writer):
    share(writer, {ONE: 1})
    first, second = join(writer), join(writer)
    repeat, number = take_and_run(first)
    first.finish(
        repeat.repeat_id,
        attempt(ONE, None, number=number),
        now(),
        again="tried again after crashed",
    )
    first.leave_to_others(repeat.repeat_id)
    assert second.take(8)


def test_a_rerun_takes_repeats_whatever_was_completed(writer):
    fill(writer.engine.url.render_as_string(hide_password=False), [(ONE, 50.0)])
    share(writer, {ONE: 1}, rerun=True)
    assert join(writer).take(8)


def test_pending_repeats_of_nobody_are_skipped_by_the_controller(writer):
    controller = share(writer, {ONE: 1, TWO: 1})
    agent = join(writer)
    taken = agent.take(8)
    assert taken
    controller.skip([1, 2], "stopped", now())
    assert sorted(states(writer), key=str) == [
        ("claimed", agent.orchestrator_id),
        ("skipped", None),
    ]


# Leases


def test_whose_lease_is_over_by_the_clock_of_the_database_has_nothing(writer):
    share(writer, {ONE: 1, TWO: 1, FOUR: 1})
    slow, other = join(writer), join(writer)
    repeat, number = take_and_run(slow)
    assert slow.take(8)
    be_silent(writer, slow, 30.0)
    assert expire(writer.engine, slow.sweep_id) is None
    be_silent(writer, slow, 31.0)
    found = expire(writer.engine, slow.sweep_id)
    assert found
    assert (found.num_orchestrators, found.num_interrupted) == (1, 1)
    assert states(writer) == [("pending", None)] * 3
    for act in (
        lambda: slow.beat(now()),
        lambda: slow.take(8),
        lambda: slow.started(repeat.repeat_id, 1, 1),
        lambda: slow.finish(repeat.repeat_id, attempt(FOUR, 50.0, number=number), now()),
    ):
        with pytest.raises(LostError):
            act()
    slow.end(now(), finished=True)
    again, number = take_and_run(other)
    assert (again.repeat_id, number) == (repeat.repeat_id, 2)
    with pytest.raises(LostError):
        slow.finish(repeat.repeat_id, attempt(FOUR, 50.0), now())
    status = shared_status(writer.engine, slow.sweep_id)
    assert [(one.note, one.ended_at is None) for one in status.agents] == [
        ("", True),
        (LEASE_OVER, False),
        ("", True),
    ]
    assert list(check(writer.engine.url.render_as_string(hide_password=False))) == []


def test_each_is_judged_by_the_lease_that_it_joined_with(writer):
    controller = share(writer, {ONE: 1})
    agent = join(writer)
    controller.end(now(), finished=False)
    share(writer, {ONE: 1}, settings={**SETTINGS, "lease_s": 20.0})
    late = join(writer)
    for one in (agent, late):
        be_silent(writer, one, 30.0)
    status = shared_status(writer.engine, agent.sweep_id)
    assert [status.is_alive(one) for one in status.agents] == [False, True, True, False]
    expire(writer.engine, agent.sweep_id)
    agent.beat(now())
    with pytest.raises(LostError):
        late.beat(now())


def test_what_was_said_before_is_not_lost_by_its_end(writer):
    share(writer, {ONE: 1}, process=HERE)
    silent, _ = join(writer), join(writer, process=DEAD_HERE)
    silent.tell("the clock is wrong")
    be_silent(writer, silent)
    expire(writer.engine, silent.sweep_id)
    notes = [one.note for one in shared_status(writer.engine, silent.sweep_id).agents]
    assert notes == ["", f"the clock is wrong; {LEASE_OVER}", SEEN_DEAD]


def test_who_closes_what_the_dead_had_keeps_no_others_from_it(writer):
    share(writer, {ONE: 1})
    agent = join(writer)
    take_and_run(agent)
    be_silent(writer, agent)
    assert end_dead(writer.engine, agent.sweep_id) == [agent.orchestrator_id]
    assert ended_with_something_in_flight(
        writer.engine, agent.sweep_id, [agent.orchestrator_id]
    ) == [agent.orchestrator_id]
    assert (
        ended_with_something_in_flight(writer.engine, agent.sweep_id, []) == []
    )  # who ended it is at it
    assert rows(writer, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]


def test_an_agent_waits_for_no_answer_nearly_as_long_as_its_lease(writer):
    def reported() -> tuple[list[str], dict[str, str]]:
        with writer.engine.connect() as connection:
            names = (
                "lock_timeout",
                "statement_timeout",
                "idle_in_transaction_session_timeout",
                "timezone",
            )
            values = [str(connection.scalar(sa.text(f"SHOW {name}"))) for name in names]
            driver = connection.connection.driver_connection
            assert isinstance(driver, psycopg.Connection)
            return values, driver.info.get_parameters()

    share(writer, {ONE: 1})
    before, parameters = reported()
    assert before == ["30s", "0", "1min", "UTC"]
    assert (parameters["keepalives_idle"], parameters["tcp_user_timeout"]) == ("10", "30000")
    assert (
        "-c tcp_user_timeout=30000" in parameters["options"]
    )  # the server's end: a host without power holds locks no longer
    join(writer)
    after, parameters = reported()
    assert after == ["3s", "6s", "6s", "UTC"]
    assert (parameters["keepalives_idle"], parameters["tcp_user_timeout"]) == ("1", "3000")
    _, _, last = parameters["options"].rpartition("tcp_user_timeout=")  # the last one holds
    assert last.split()[0] == "3000"


@pytest.mark.integration
def test_a_server_that_answers_too_late_is_asked_again(writer):
    share(writer, {ONE: 1})
    join(writer)

    def ask() -> None:
        with writing(writer.engine) as connection:
            # for one statement alone: a loaded machine may pause longer than a short lease allows
            connection.execute(sa.text("SET LOCAL statement_timeout = '100ms'"))
            connection.execute(sa.text("SELECT pg_sleep(60)"))

    with pytest.raises(LockedError, match="the server is too busy"):
        ask()


def test_a_sign_renews_the_lease_whatever_the_clock_of_the_host_says(writer):
    share(writer, {ONE: 1})
    agent = join(writer)
    be_silent(writer, agent, 59.0)
    agent.beat(NOON - timedelta(days=1))
    assert shared_status(writer.engine, agent.sweep_id).agents[1].silent_s < 59.0
    assert expire(writer.engine, agent.sweep_id) is None


def test_a_result_that_a_lost_agent_had_is_kept(writer, tmp_path):
    share(writer, {ONE: 1})
    agent = join(writer)
    folder = RunFolder(tmp_path / "x")
    folder.path.mkdir()
    take_and_run(agent, str(folder.path))
    result = Result(
        outcome=Outcome.COMPLETED, message="", measurement=measurement(50.0), op_placement={}
    )
    folder.steps.write_text("".join(json.dumps(asdict(step)) + "\n" for step in STEPS))
    folder.write(folder.result, result.to_json())
    be_silent(writer, agent)
    found = expire(writer.engine, agent.sweep_id)
    assert found
    assert (found.num_completed, found.num_interrupted) == (1, 0)
    assert states(writer) == [("completed", agent.orchestrator_id)]
    assert rows(writer, "SELECT throughput FROM measurements") == [(50.0,)]


def test_a_repeat_that_costs_one_agent_after_another_has_failed(writer, tmp_path):
    share(writer, {ONE: 1})
    for number in range(1, MOST_LOST + 1):
        agent = join(writer)
        folder = tmp_path / str(number)
        folder.mkdir()
        assert take_and_run(agent, str(folder))[1] == number
        be_silent(writer, agent)
        expire(writer.engine, agent.sweep_id)
    assert states(writer) == [("failed", agent.orchestrator_id)]
    outcomes = rows(writer, "SELECT outcome FROM attempts ORDER BY attempt")
    assert outcomes == [("interrupted",)] * (MOST_LOST - 1) + [("failed",)]
    ((message,),) = rows(writer, "SELECT message FROM attempts WHERE outcome = 'failed'")
    assert message == f"{MOST_LOST} agents were lost while they ran it: it may be what killed them"
    assert '"outcome": "failed"' in (folder / "ended.json").read_text()


def test_what_an_agent_was_to_try_again_is_open_once_its_lease_is_over(writer):
    share(writer, {ONE: 1})
    agent = join(writer)
    repeat, number = take_and_run(agent)
    agent.finish(
        repeat.repeat_id,
        attempt(ONE, None, number=number),
        now(),
        again="tried again after crashed",
    )
    be_silent(writer, agent)
    expire(writer.engine, agent.sweep_id)
    assert states(writer) == [("pending", None)]


def test_a_dead_agent_is_ended_at_once_here_and_by_its_lease_elsewhere(
    writer,
):
    share(writer, {ONE: 1, TWO: 1}, process=HERE)
    elsewhere = ProcessIdentity(
        host="node7", boot_id="x", pid_namespace="pid:[7]", pid=HERE.pid, start_ticks=1
    )
    booted = replace(elsewhere, host=HERE.host, pid_namespace=HERE.pid_namespace)
    dead, other, same_name = (
        join(writer, process=process) for process in (DEAD_HERE, elsewhere, booted)
    )
    assert dead.take(8)
    assert other.take(8)
    found = recover(writer.engine)
    assert found
    assert found.num_orchestrators == 1
    ended = [
        one.orchestrator_id
        for one in shared_status(writer.engine, dead.sweep_id).agents
        if one.ended_at
    ]
    assert ended == [dead.orchestrator_id]
    assert sorted(states(writer), key=str) == [
        ("claimed", other.orchestrator_id),
        ("pending", None),
    ]
    same_name.beat(now())
    assert recover(writer.engine) is None


def test_what_somebody_ended_and_did_not_close_is_closed_by_the_next(writer):
    share(writer, {ONE: 1})
    agent = join(writer)
    take_and_run(agent)
    with writer.engine.begin() as connection:
        long_ago = "ended_at = started_at - interval '61 s'"
        connection.execute(sa.text(f"UPDATE orchestrators SET {long_ago}"))
    reported = "agents that were lost: 1; 1 had not ended and is left to other agents"
    assert str(expire(writer.engine, agent.sweep_id)) == reported
    assert states(writer) == [("pending", None)]
    assert recover(writer.engine) is None


def test_a_controller_that_is_gone_is_no_loss_that_anybody_is_reported_of(writer):
    share(writer, {ONE: 1}, process=DEAD_HERE)
    agent = join(writer, process=HERE)
    take_and_run(agent)
    assert recover(writer.engine) is None
    assert states(writer) == [("running", agent.orchestrator_id)]


# Beginning and joining


def test_a_shared_sweep_is_continued_beside_its_agents(writer):
    controller = share(writer, {ONE: 3, TWO: 2}, wanted_repeats=3)
    agent = join(writer)
    running, number = take_and_run(agent)  # the first of TWO
    done, _ = take_and_run(agent)
    agent.finish(done.repeat_id, attempt(ONE, 50.0), now())
    controller.end(now(), finished=True)
    # What was completed on another machine was completed for this sweep.
    again = share(
        writer, {ONE: 3, TWO: 2}, wanted_repeats=3, machine=replace(MACHINE, host="controller")
    )
    assert again.sweep_id == controller.sweep_id
    counts = rows(
        writer,
        "SELECT num_gpus, state, count(*) FROM repeats JOIN trials ON trials.id = trial_id GROUP BY 1, 2 ORDER BY 1, 2",
    )
    assert counts == [(1, "completed", 1), (1, "pending", 2), (2, "pending", 1), (2, "running", 1)]
    agent.finish(running.repeat_id, attempt(TWO, 60.0, number=number), now())
    status = shared_status(writer.engine, again.sweep_id)
    assert [one.is_controller for one in status.agents] == [True, False, True]
    assert not status.is_settled


def test_two_controllers_of_one_sweep_are_refused_until_the_first_is_dead(writer):
    first = share(writer, {ONE: 1})
    with pytest.raises(
        StoreError,
        match=r"^sweep\.name=night: process 4711 on testbox is running a sweep of this name; wait for it",
    ):
        share(writer, {ONE: 1})
    with pytest.raises(StoreError, match="is running a sweep of this name"):
        begin(writer, {ONE: 1}, name="night")
    be_silent(writer, first)
    assert share(writer, {ONE: 1}).sweep_id == first.sweep_id


def test_a_sweep_of_one_host_is_continued_as_a_shared_one_and_back(writer):
    begin(writer, {ONE: 1}, name="night").end(NOON, finished=False)
    controller = share(writer, {ONE: 1})
    agent = join(writer)
    assert agent.take(8)
    with pytest.raises(StoreError, match="is running a sweep of this name"):
        begin(writer, {ONE: 1}, name="night")
    for ledger in (agent, controller):
        ledger.end(now(), finished=False)
    (left,) = begin(writer, {ONE: 1}, name="night").open_repeats()
    assert left.trial_id == ONE.trial_id
    with pytest.raises(
        StoreError, match=r"^sweep night: it is one host's alone; .* launcher=agents, slurm or ray$"
    ):
        join(writer)


def test_an_agent_with_other_software_is_refused(writer):
    share(writer, {ONE: 1})
    with pytest.raises(
        StoreError,
        match=rf"^sweep night: its controller has the software {SOFTWARE_KEY}, this agent another; install",
    ):
        join(writer, software_key="another")


def test_an_agent_of_a_sweep_that_is_not_there_is_refused(writer):
    with pytest.raises(
        StoreError,
        match=r"^sweep nigth: there is none of this name in postgresql://.*; name another, or begin one",
    ):
        join(writer, name="nigth")


def test_a_file_cannot_be_shared():
    with closing(Writer("r.db")) as opened:
        for act in (lambda: share(opened, {ONE: 1}), lambda: join(opened)):
            with pytest.raises(
                StoreError,
                match=r"^r\.db: a SQLite file, .*: store\.url=postgresql://USER@HOST/NAME$",
            ):
                act()


def test_settings_without_a_lease_are_refused(writer):
    with pytest.raises(ValueError, match="wanted those of a shared one"):
        share(writer, {ONE: 1}, settings={})


def test_agents_are_reported_the_settings(writer):
    share(writer, {ONE: 1})
    agent = join(writer)
    assert dict(agent.settings).items() >= dict(SETTINGS).items()
    assert (agent.lease_s, agent.sweep_name) == (60.0, "night")


def test_the_status_tells_of_every_agent(writer):
    controller = share(writer, {ONE: 2})
    agent = join(writer, process=replace(PROCESS, host="node3"))
    take_and_run(agent)
    agent.tell("2 GPUs")
    status = shared_status(writer.engine, controller.sweep_id)
    assert dict(status.counts) == {State.PENDING: 1, State.RUNNING: 1}
    first, second = status.agents
    assert (first.is_controller, first.running, status.is_alive(first)) == (True, (), True)
    reported = (second.process.host, second.is_controller, second.note, second.running)
    assert reported == ("node3", False, "2 GPUs", ("trivial-replicated_none-x1 repeat 1",))
    be_silent(writer, agent)
    assert not status.is_alive(shared_status(writer.engine, controller.sweep_id).agents[1])


def test_a_second_terminal_sees_the_agents_with_their_hosts(writer):
    controller = share(writer, {ONE: 2})
    agent = join(writer, process=replace(PROCESS, host="node3", pid=7))
    take_and_run(agent)
    refused = join(writer, process=replace(PROCESS, host="node4", pid=8))
    refused.tell("no shared folder")
    refused.end(now(), finished=False)
    (status,) = sweep_status(writer.engine, "night")
    snapshot = snapshot_of(status)
    assert (snapshot.state, snapshot.machine, snapshot.counts.running) == (
        "running",
        "shared by agents on node3",
        1,
    )
    reported = [re.sub(r"\d+ s ago", "N s ago", line) for line in snapshot.notes[1:]]
    assert reported == [
        "controller on testbox, process 4711, gave its last sign N s ago",
        "agent on node3, process 7, runs trivial-replicated_none-x1 repeat 1, gave its last sign N s ago",
        "agent on node4, process 8, has ended: no shared folder",
    ]
    for ledger in (controller, agent):
        be_silent(writer, ledger)
    (status,) = sweep_status(writer.engine, "night")
    assert snapshot_of(status).state == "killed"


def test_a_wrong_password_is_never_shown(postgresql_url):
    with psycopg.connect(postgresql_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("CREATE ROLE asked_for_its_password LOGIN PASSWORD 'right'")
        ((hba,),) = connection.execute("SHOW hba_file")
        before = Path(hba).read_text()
        try:
            Path(hba).write_text(f"local all asked_for_its_password scram-sha-256\n{before}")
            connection.execute("SELECT pg_reload_conf()")
            url = sa.make_url(postgresql_url).set(
                username="asked_for_its_password", password="hunter2"
            )
            with pytest.raises(StoreError, match="password authentication failed") as caught:
                Writer(url.render_as_string(hide_password=False))
        finally:
            Path(hba).write_text(before)
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("DROP ROLE asked_for_its_password")
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert "asked_for_its_password" in shown
    assert "hunter2" not in shown


def test_what_was_written_though_its_answer_was_lost_is_not_written_twice(writer):
    share(writer, {ONE: 1})
    agent = join(writer)
    repeat = agent.take(8)
    assert repeat
    assert agent.claim(repeat, now()) is Claim.TAKEN
    assert [agent.run(repeat, "/runs/x", PLACEMENT, now()) for _ in range(2)] == [1, 1]
    with pytest.raises(LostError):
        agent.run(repeat, "/runs/another", PLACEMENT, now())
    for _ in range(2):
        agent.finish(
            repeat.repeat_id, attempt(ONE, None, number=1), now(), again="tried again after crashed"
        )
    again = replace(repeat, num_attempts=1)
    assert [agent.claim(again, now()) for _ in range(2)] == [Claim.TAKEN, Claim.TAKEN]
    agent.run(again, "/runs/x2", PLACEMENT, now())
    for _ in range(2):
        agent.finish(repeat.repeat_id, attempt(ONE, 50.0, number=2), now())
    assert queries.rows(writer.engine, "SELECT count(*) AS num FROM attempts") == [{"num": 2}]
    assert states(writer) == [("completed", agent.orchestrator_id)]


def test_what_others_wrote_about_a_lost_agent_is_not_taken_for_its_own(writer):
    share(writer, {ONE: 1})
    agent = join(writer)
    repeat, number = take_and_run(agent)
    be_silent(writer, agent, 61.0)
    assert expire(writer.engine, agent.sweep_id)
    with pytest.raises(LostError):
        agent.finish(repeat.repeat_id, attempt(ONE, 50.0, number=number), now())


def test_a_server_that_is_away_differs_from_one_that_refuses(writer):
    with (
        pytest.raises(AwayError, match="terminating connection"),
        writing(writer.engine) as connection,
    ):
        connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
    with pytest.raises(AwayError, match="is the server there"):
        open_for_reading("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(StoreError) as refused, writing(writer.engine) as connection:
        connection.execute(sa.text("SELECT * FROM no_such_table"))
    assert type(refused.value) is StoreError

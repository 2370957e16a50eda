"""What a controller does when its lease, its database or its engine fails it: it touches only what is its own, and reports."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import sqlalchemy as sa
from rich.console import Console

from conf.schema import OnFailure, OnInterrupt, SweepConfig
from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome, State
from store.errors import StoreError
from store.reading import queries
from store.sweeps.agents import come_back, num_open, set_wish, wish_of
from store.sweeps.ledger import LostError
from store.sweeps.shared import SharedLedger, TakenRepeat
from store.writer import Writer
from sweeper.agents.controller import Controller, ControllerTools
from sweeper.agents.fleet import Fleet
from sweeper.agents.results import MOST_INTERRUPTED
from sweeper.errors import SweepRefusedError
from sweeper.launchers import AgentJob, JobState, agent_command
from sweeper.live.progress import Progress
from sweeper.loop.source import Wish
from sweeper.planning.plan import make_plan
from sweeper.running.recover import expire
from sweeper.stop import Stop
from tests.filled import PLACEMENT, attempt
from tests.slurm import until
from tests.specs import small
from tests.store.agents import join, now, share, work
from tests.sweeper.world import EIGHT

pytestmark = pytest.mark.integration

ONE = small()


class Engine:
    """A launcher whose agents are lines on paper; whenever it is asked how they are, the next of `happens` does."""

    def __init__(self) -> None:
        self.jobs: list[AgentJob] = []
        self.asked: list[str] = []
        self.happens: list[Callable[[], object]] = []
        self.refuses = False

    def check(self):
        raise NotImplementedError

    def start(self, num, command):
        job = AgentJob(job_id="1", hosts=command.hosts, state=JobState.RUNNING)
        self.jobs.extend([job] * num)

    def look(self, sweep):
        if self.happens:
            self.happens.pop(0)()
        return list(self.jobs)

    def take_back(self, sweep):
        self.asked.append("take back")

    def stop(self, sweep, *, at_once):
        self.asked.append("kill" if at_once else "stop")
        if self.refuses:
            raise SweepRefusedError("scancel: no")
        self.jobs.clear()


class World:
    """A sweep of two repeats, with its controller."""

    def __init__(
        self, url: str, writer: Writer, console: Console | None = None, **sweep: object
    ) -> None:
        self.url, self.writer, self.engine, self.stop = url, writer, Engine(), Stop()
        self.ledger = share(writer, {ONE: 2})
        plan = make_plan([ONE], [], SweepConfig(repeats=2), {})
        self.progress = progress = Progress("night", "here", EIGHT, plan, console)
        fleet = Fleet(
            self.engine,
            "night",
            1,
            lambda hosts: agent_command("night", url, hosts=hosts, logs=Path()),
            progress.note,
        )
        tools = ControllerTools(
            ledger=self.ledger,
            fleet=fleet,
            progress=progress,
            stop=self.stop,
            runs_dir=Path("runs"),
        )
        self.controller = Controller(tools, SweepConfig(**sweep), {ONE.trial_id: plan.trials[0]})

    def do(self, *happens: Callable[[], object]) -> None:
        self.engine.happens.extend(happens)
        self.controller.run()

    def complete_all(self) -> None:
        self.engine.jobs.clear()
        work(self.url, "elsewhere", lambda: None)

    def lose_lease(self) -> None:
        self.be_silent(self.ledger)
        expire(self.writer.engine, self.ledger.sweep_id)
        with pytest.raises(LostError):
            self.ledger.beat(now())

    def be_silent(self, ledger: SharedLedger) -> None:
        earlier = (
            "UPDATE orchestrators SET heartbeat_at = heartbeat_at - interval '61 s' WHERE id = :id"
        )
        with self.writer.engine.begin() as connection:
            connection.execute(sa.text(earlier), {"id": ledger.orchestrator_id})

    def begin_one(self) -> tuple[SharedLedger, TakenRepeat, int]:
        """An agent that runs one, and the number of its attempt."""
        agent = join(self.writer)
        repeat = agent.take(8)
        assert repeat
        return (
            agent,
            repeat,
            agent.run(repeat, f"/runs/{repeat.repeat}-{repeat.num_attempts}", PLACEMENT, now()),
        )

    def interrupt(self) -> None:
        self.end_one(Outcome.INTERRUPTED)

    def end_one(self, outcome: Outcome, again: str | None = None) -> None:
        """By an agent that begins it, and then ends."""
        agent, repeat, number = self.begin_one()
        result = Result(outcome=outcome, message="", measurement=None, op_placement={})
        ended = replace(
            attempt(ONE, 1.0, repeat=repeat.repeat, number=number, steps=[]), result=result
        )
        agent.finish(repeat.repeat_id, ended, now(), again=again)
        agent.end(now(), finished=False)

    @property
    def wish(self) -> int:
        return wish_of(self.writer.engine, self.ledger.sweep_id)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in queries.rows(self.writer.engine, sql)]

    @property
    def is_finished(self) -> bool:
        return self.rows("SELECT finished_at IS NOT NULL FROM sweeps") == [(True,)]


@pytest.fixture
def begin(postgresql_url, monkeypatch):
    monkeypatch.setattr("sweeper.agents.controller.LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("sweeper.agents.controller.AGENTS_END_WITHIN_S", 0.1)
    with closing(Writer(postgresql_url)) as writer:
        yield lambda **changes: World(postgresql_url, writer, **changes)


def test_a_controller_that_lost_its_lease_to_nobody_goes_on(begin, capsys):
    world = begin()
    world.do(world.lose_lease, world.complete_all)
    assert world.controller.failure is None
    assert world.is_finished
    assert world.rows(
        "SELECT ended_at IS NOT NULL, note FROM orchestrators ORDER BY id LIMIT 1"
    ) == [(True, "")]
    assert (
        "this command gave no sign for 60 s or more, its lease; nobody else has taken the sweep over"
        in capsys.readouterr().err
    )


def test_a_controller_that_was_followed_leaves_the_agents_alone(begin):
    world = begin()

    def follow() -> None:
        world.lose_lease()
        share(world.writer, {ONE: 2})
        world.stop.ask(1)

    world.do(follow)
    assert "another command has taken this sweep over" in str(world.controller.failure)
    assert world.engine.asked == []
    assert world.wish == Wish.GO_ON
    assert world.rows("SELECT ended_at IS NULL FROM orchestrators ORDER BY id DESC LIMIT 1") == [
        (True,)
    ]


def test_a_lease_lost_at_the_end_leaves_the_sweep_finished(begin):
    world = begin()

    def end_all() -> None:
        world.complete_all()
        world.lose_lease()

    world.do(end_all)
    assert world.controller.failure is None
    assert world.is_finished


def test_a_wish_is_written_by_the_one_controller_that_the_sweep_has(begin):
    world = begin()
    engine, sweep_id, first = (
        world.writer.engine,
        world.ledger.sweep_id,
        world.ledger.orchestrator_id,
    )
    set_wish(engine, sweep_id, first, Wish.STOP)
    assert world.wish == Wish.STOP
    world.be_silent(world.ledger)  # and nobody has ended it
    second = share(world.writer, {ONE: 2})
    assert world.wish == Wish.GO_ON
    for stale in (first, join(world.writer).orchestrator_id):
        with pytest.raises(LostError):
            set_wish(engine, sweep_id, stale, Wish.STOP)
        assert not come_back(engine, sweep_id, stale)
    assert world.wish == Wish.GO_ON
    second.end(now(), finished=False)
    with pytest.raises(LostError):
        set_wish(engine, sweep_id, second.orchestrator_id, Wish.STOP)


@pytest.mark.parametrize(("asks", "reported"), [(1, Wish.STOP), (2, Wish.KILL)])
def test_ctrl_c_while_the_database_does_not_answer_is_obeyed_when_it_does(
    begin, monkeypatch, asks, reported
):
    world = begin()
    outages = [1] * (2 - asks)  # at the second Ctrl-C nobody waits for a database

    def sometimes(*arguments):
        if outages:
            outages.pop()
            raise StoreError("the server closed the connection")
        set_wish(*arguments)

    monkeypatch.setattr("sweeper.agents.controller.set_wish", sometimes)
    world.do(lambda: world.stop.ask(asks))
    assert outages == []
    assert world.wish == reported
    assert world.engine.asked[0] == {Wish.STOP: "stop", Wish.KILL: "kill"}[reported]


def test_a_failure_stops_the_sweep_after_the_database_was_away(begin, monkeypatch):
    world = begin(on_failure=OnFailure.stop)
    outages = [1]

    def sometimes(*arguments):
        if outages:
            outages.pop()
            raise StoreError("the server closed the connection")
        set_wish(*arguments)

    def fail() -> None:
        agent = join(world.writer)
        repeat = agent.take(8)
        number = agent.run(repeat, "/runs/x", PLACEMENT, now())
        failed = Result(outcome=Outcome.FAILED, message="no", measurement=None, op_placement={})
        agent.finish(
            repeat.repeat_id,
            replace(attempt(ONE, 1.0, number=number, steps=[]), result=failed),
            now(),
        )

    monkeypatch.setattr("sweeper.agents.controller.set_wish", sometimes)
    world.do(fail)
    assert world.wish == Wish.FINISH
    assert world.controller.num_left == 1


def test_with_on_interrupt_finish_what_waits_in_the_queue_is_taken_back(begin):
    world = begin(on_interrupt=OnInterrupt.finish)
    world.do(lambda: world.stop.ask(1))
    assert world.wish == Wish.FINISH
    assert world.engine.asked == ["take back", "stop"]


def test_an_engine_that_ends_no_agents_does_not_cost_the_report(begin, capsys):
    world = begin()
    world.engine.refuses = True
    world.do(world.complete_all)
    assert world.controller.failure is None
    assert world.is_finished
    assert "agents may be left over, and end by themselves: scancel: no" in capsys.readouterr().err


def test_a_repeat_that_outlasts_one_agent_after_another_is_given_up(begin):
    world = begin()
    world.do(*[world.interrupt] * MOST_INTERRUPTED, world.complete_all)
    assert world.rows(
        "SELECT state, reason LIKE 'interrupted 5 times: it may take longer%' FROM repeats ORDER BY repeat"
    ) == [
        ("skipped", True),
        ("completed", False),
    ]
    (failure,) = world.controller.ran.failures
    assert (
        "repeat 1 skipped: interrupted 5 times: it may take longer than its agents may live"
        in failure.line
    )


def test_what_ctrl_c_interrupts_counts_once_and_is_not_retried(begin, capsys):
    world = begin()
    world.do(lambda: (world.interrupt(), world.stop.ask(1)))
    controller = world.controller
    assert controller.ran.states == {State.INTERRUPTED: 1}
    assert (
        controller.ran.num_not_started,
        controller.ran.num_running,
        controller.ran.num_retries,
    ) == (1, 0, 0)
    (failure,) = controller.ran.failures
    assert failure.line.startswith("trivial-replicated_none-x1 interrupted: ")
    said = capsys.readouterr().err
    assert "interrupted" in said
    assert "tried again" not in said


@pytest.mark.parametrize(
    "sweep", [{"on_interrupt": OnInterrupt.finish}, {"on_failure": OnFailure.stop}]
)
def test_what_fails_during_a_stop_counts_as_failed(begin, capsys, sweep):
    world = begin(**sweep)
    failed = lambda again=None: world.end_one(Outcome.FAILED, again)  # noqa: E731
    if "on_failure" in sweep:
        world.do(lambda: (failed(), failed("tried again after crashed")))
        assert world.controller.ran.states == {State.FAILED: 2}
        assert "sweep.on_failure=stop: nothing more is started" in capsys.readouterr().err
    else:
        world.do(lambda: (failed("tried again after crashed"), world.stop.ask(1)))
        assert world.controller.ran.states == {State.FAILED: 1}
        assert "tried again" not in capsys.readouterr().err
    assert world.controller.ran.states.total() + world.controller.ran.num_not_started == 2
    assert world.controller.ran.num_retries == 0


def test_what_is_interrupted_while_the_sweep_goes_on_is_tried_again(begin, capsys):
    world = begin()
    world.do(world.interrupt, world.complete_all)
    assert "(tried again after interrupted)" in capsys.readouterr().err
    assert world.controller.ran.states == {State.COMPLETED: 2}
    assert (
        world.controller.ran.num_retries,
        world.controller.ran.num_not_started,
        world.controller.ran.failures,
    ) == (1, 0, [])


def test_a_repeat_taken_before_ctrl_c_counts_as_it_ended_last(begin):
    world = begin()
    world.do(lambda: (world.interrupt(), world.stop.ask(1), world.end_one(Outcome.COMPLETED)))
    assert world.controller.ran.states == {State.COMPLETED: 1}
    assert (
        world.controller.ran.num_not_started,
        world.controller.ran.num_retries,
        world.controller.ran.failures,
    ) == (1, 1, [])


def test_what_a_second_ctrl_c_kills_counts_as_interrupted(begin):
    world = begin()
    world.do(lambda: (world.begin_one(), world.stop.ask(2)))
    assert world.controller.ran.states == {State.INTERRUPTED: 1}
    assert (world.controller.ran.num_not_started, world.controller.ran.num_running) == (1, 0)


def test_what_agents_go_on_with_under_another_command_is_running(begin):
    world = begin()
    world.do(world.begin_one, lambda: (world.lose_lease(), share(world.writer, {ONE: 2})))
    assert "another command has taken this sweep over" in str(world.controller.failure)
    assert (world.controller.ran.num_not_started, world.controller.ran.num_running) == (1, 1)
    assert not world.controller.ran.states


def test_that_no_agent_has_joined_is_shown_until_the_first_has(begin):
    screen = StringIO()
    world = begin(console=Console(file=screen, force_terminal=True, width=120))

    def forget() -> None:
        screen.truncate(0)

    def see(is_shown: bool) -> None:
        assert ("no agent has joined yet" in screen.getvalue()) is is_shown

    with world.progress:
        world.do(
            lambda: see(True),
            world.interrupt,
            forget,
            lambda: see(False),
            lambda: world.stop.ask(1),
        )
    see(False)


def test_the_lease_is_renewed_while_the_engine_takes_its_time(begin, monkeypatch):
    monkeypatch.setattr(
        "sweeper.agents.lease.BEATS", 600
    )  # in a lease so long that it is over for nobody, however slow this machine is
    world = begin()
    beat = "SELECT heartbeat_at FROM orchestrators ORDER BY id LIMIT 1"

    def take_long() -> None:
        before = world.rows(beat)
        until(lambda: world.rows(beat) != before)

    world.do(take_long, take_long, world.complete_all)
    assert world.controller.failure is None


def test_what_an_agent_holds_to_try_it_again_wants_no_other_agent(begin):
    world = begin()
    agent = join(world.writer)
    repeat = agent.take(8)
    number = agent.run(repeat, "/runs/x", PLACEMENT, now())
    failed = Result(outcome=Outcome.FAILED, message="no", measurement=None, op_placement={})
    ended = replace(attempt(ONE, 1.0, number=number, steps=[]), result=failed)
    agent.finish(repeat.repeat_id, ended, now(), again="failed")
    assert num_open(world.writer.engine, world.ledger.sweep_id) == {1: (1, 1)}

"""The parts of a controller, each by itself: no database, no process, no waiting."""

from pathlib import Path

import pytest

from conf.schema import OnFailure, OnInterrupt, SweepConfig
from scalemark.records.outcomes import Outcome, State
from store.errors import StoreError
from store.sweeps.agents import EndedRow
from store.sweeps.shared import AgentStatus, SharedStatus
from sweeper.agents.orders import Orders
from sweeper.agents.results import MOST_INTERRUPTED, Results
from sweeper.agents.roster import Roster, Standing
from sweeper.agents.shared_settings import REFUSED
from sweeper.live.progress import Progress
from sweeper.loop.source import Wish
from sweeper.planning.plan import make_plan
from sweeper.stop import Stop
from tests.filled import NOON, PROCESS
from tests.specs import small
from tests.sweeper.world import EIGHT

ONE = small()


class FakeFleet:
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def take_back(self) -> None:
        self.asked.append("take back")

    def stop(self, *, at_once: bool) -> None:
        self.asked.append("kill" if at_once else "stop")


class World:
    """Orders and results of a sweep of two repeats."""

    def __init__(
        self,
        on_interrupt: OnInterrupt = OnInterrupt.stop,
        on_failure: OnFailure = OnFailure["continue"],
    ) -> None:
        self.stop, self.fleet, self.notes = Stop(), FakeFleet(), []
        self.wishes: list[Wish] = []
        self.orders = Orders(
            on_interrupt, self.stop, self.fleet, self.wishes.append, self.notes.append
        )
        plan = make_plan([ONE], [], SweepConfig(repeats=2), {})
        progress = Progress("s", "here", EIGHT, plan)
        trials = {ONE.trial_id: plan.trials[0]}
        self.results = Results(progress, self.orders, on_failure, trials, Path("runs"), 0)

    def tell(self, *rows: EndedRow) -> None:
        self.results.tell(rows, lambda: None)


def row(
    attempt_id: int, outcome: Outcome, *, repeat_id: int = 1, is_final: bool = True
) -> EndedRow:
    return EndedRow(
        attempt_id=attempt_id,
        repeat_id=repeat_id,
        trial_id=ONE.trial_id,
        repeat=repeat_id,
        outcome=outcome,
        message="why",
        is_final=is_final,
        run_dir="x",
        duration_s=10.0,
        throughput=None,
        item=None,
        median_step_s=None,
        jitter_s=None,
        verdict=None,
        verdict_reasons=(),
    )


@pytest.mark.parametrize(
    ("on_interrupt", "asked", "wish", "fleet"),
    [
        (OnInterrupt.stop, 1, Wish.STOP, "stop"),
        (OnInterrupt.finish, 1, Wish.FINISH, "take back"),
        (OnInterrupt.finish, 2, Wish.KILL, "kill"),
    ],
)
def test_a_signal_becomes_one_order(on_interrupt, asked, wish, fleet):
    world = World(on_interrupt)
    world.stop.ask(asked)
    for _ in range(2):
        world.orders.obey(num_running=3)
    assert (world.wishes, world.fleet.asked) == ([wish], [fleet])
    assert world.orders.ends_what_runs is (wish >= Wish.STOP)


def test_an_order_that_the_database_did_not_take_is_given_again():
    world, answers = World(), [StoreError("away")]

    def set_wish(wish: Wish) -> None:
        if answers:
            raise answers.pop()
        world.wishes.append(wish)

    world.orders._set_wish = set_wish
    world.stop.ask(1)
    with pytest.raises(StoreError):
        world.orders.obey(0)
    assert world.fleet.asked == []
    world.orders.obey(0)
    assert (world.wishes, world.fleet.asked) == ([Wish.STOP], ["stop"])


def test_a_retry_is_counted_and_a_completed_repeat_is_no_failure():
    world = World()
    world.tell(row(1, Outcome.FAILED, is_final=False), row(2, Outcome.COMPLETED))
    assert (world.results.num_attempts, world.results.num_retries) == (2, 1)
    assert (world.results.failures, world.results.last_attempt) == ([], 2)


def test_a_failure_ends_the_sweep_if_the_user_says_so():
    world = World(on_failure=OnFailure.stop)
    world.tell(row(1, Outcome.FAILED))
    assert world.orders.wanted is Wish.FINISH
    (failure,) = world.results.failures
    assert failure.line.endswith("failed: why (runs/x/log.txt)")


@pytest.mark.parametrize(("num", "given_up"), [(MOST_INTERRUPTED - 1, []), (MOST_INTERRUPTED, [1])])
def test_a_repeat_that_outlasts_every_agent_is_given_up(num, given_up):
    world, asked = World(), []
    world.tell(*(row(one, Outcome.INTERRUPTED, is_final=False) for one in range(1, num + 1)))
    world.results.give_up_what_never_ends(lambda repeat_id, why: not asked.append(repeat_id))
    assert asked == given_up
    assert len(world.results.failures) == len(given_up)


def test_a_repeat_that_agents_keep_taking_ends_the_sweep():
    world = World()
    rows = (row(one, Outcome.INTERRUPTED, is_final=False) for one in range(1, 11))
    world.tell(*rows)
    world.results.give_up_what_never_ends(lambda repeat_id, why: False)
    assert world.orders.wanted is Wish.FINISH


def test_what_is_left_takes_as_long_as_what_was_seen():
    world = World()
    assert world.results.eta_s(num_left=4, num_running=2) is None
    world.tell(row(1, Outcome.COMPLETED))
    assert world.results.eta_s(num_left=4, num_running=2) == 20.0


def test_what_ended_since_it_began_is_counted():
    standing = Standing({State.PENDING: 3, State.COMPLETED: 1})
    standing.now.update({State.COMPLETED: 2, State.RUNNING: 1})
    standing.now.subtract({State.PENDING: 3})
    assert standing.settled == {State.COMPLETED: 2}
    assert (standing.num_left, standing.num_not_started, standing.num_in_flight) == (1, 0, 1)


def agent(number: int, *, note: str = "", has_ended: bool = False) -> AgentStatus:
    return AgentStatus(
        orchestrator_id=number,
        process=PROCESS,
        is_controller=False,
        started_at=NOON,
        ended_at=NOON if has_ended else None,
        silent_s=0.0,
        lease_s=60.0,
        note=note,
        running=(),
    )


def status(*agents: AgentStatus) -> SharedStatus:
    return SharedStatus(counts={}, agents=agents, lease_s=60.0)


def test_agents_are_reported_of_once_and_those_of_an_earlier_command_never():
    reported = []
    roster = Roster(status(agent(1, has_ended=True)), reported.append)
    for _ in range(2):
        roster.look(status(agent(1, has_ended=True), agent(2)))
    roster.look(status(agent(2, has_ended=True, note="it was sent SIGTERM")))
    who = "agent on testbox (process 4711)"
    assert reported == [f"{who} joined", f"{who} ended: it was sent SIGTERM"]


def test_the_fleet_learns_who_ran_something_and_who_refused():
    roster = Roster(status(), lambda text: None)
    ended = agent(1, has_ended=True), agent(2, has_ended=True, note=f"{REFUSED}no such folder")
    seen = roster.seen(status(*ended, agent(3)), {1: (2, 1)}, num_attempts=5, busy=[1, 3])
    assert (seen.num_useful, seen.newest_agent, seen.num_attempts) == (1, 3, 5)
    assert seen.refusals == {2: "no such folder"}

"""Real processes share a sweep on a real server and are killed at random moments: every repeat is completed exactly once."""

import multiprocessing
import random
from collections import Counter
from contextlib import closing
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess

import pytest

from store.checks import check
from store.database import open_for_reading
from store.reading import queries
from store.sweeps.shared import shared_status
from store.writer import Writer
from tests.specs import small
from tests.store import agents
from tests.store.reported_steps import ReportedSteps, go_on, is_known

pytestmark = pytest.mark.integration

NUM_AGENTS, NUM_TRIALS, NUM_REPEATS, NUM_KILLS = 4, 8, 3, 8
LEASE_S = 1.5


def _work(url: str, host: str, steps: Connection) -> None:
    agents.work(url, host, ReportedSteps(steps))


def _run_all(url: str, chance: random.Random) -> Counter[int | None]:
    """Who is killed leaves its place to another host. Returns how processes ended."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.test_agents_at_once"])
    exit_codes: Counter[int | None] = Counter()
    running: dict[Connection, ForkServerProcess] = {}
    left: dict[Connection, int] = {}  # steps until it is killed

    def start(number: int) -> None:
        steps, theirs = context.Pipe()
        process = context.Process(target=_work, args=(url, f"node{number}", theirs))
        process.start()
        theirs.close()
        running[steps] = process
        if number <= NUM_KILLS:
            left[steps] = chance.randint(1, 14)

    num_started = NUM_AGENTS
    for number in range(1, NUM_AGENTS + 1):
        start(number)
    while running:
        for steps in wait(list(running)):
            assert isinstance(steps, Connection)
            if not is_known(steps):
                process = running.pop(steps)
                process.join()
                steps.close()
                exit_codes[process.exitcode] += 1
                if process.exitcode == -9:
                    num_started += 1
                    start(num_started)
                continue
            left[steps] = left.get(steps, 1_000_000) - 1
            if left[steps] == 0:
                running[steps].kill()
            else:
                go_on(steps)
    return exit_codes


def test_killed_agents_complete_every_repeat_exactly_once(
    postgresql_template_url,
):
    url = postgresql_template_url
    specs = {small(seed=seed): NUM_REPEATS for seed in range(1, NUM_TRIALS + 1)}
    with closing(Writer(url)) as writer:
        controller = agents.share(writer, specs, settings={"lease_s": LEASE_S})
        exit_codes = _run_all(url, random.Random(1))
        status = shared_status(writer.engine, controller.sweep_id)
        controller.end(agents.now(), finished=True)
    assert set(exit_codes) == {0, -9}
    assert exit_codes[-9] >= NUM_AGENTS  # who is fast ends before its moment
    assert status.is_settled
    engine = open_for_reading(url)
    completed = "SELECT trial_id, repeat, count(*) AS num FROM attempts WHERE outcome = 'completed' GROUP BY trial_id, repeat"
    assert [row["num"] for row in queries.rows(engine, completed)] == [1] * (
        NUM_TRIALS * NUM_REPEATS
    )
    assert queries.rows(engine, "SELECT id FROM repeats WHERE state <> 'completed'") == []
    killed = [agent for agent in status.agents if agent.note]
    assert len(killed) >= sum(1 for agent in status.agents if agent.ended_at) - NUM_AGENTS
    assert list(check(url)) == []
    engine.dispose()

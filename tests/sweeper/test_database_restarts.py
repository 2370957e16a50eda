"""The database's server is stopped and started again while a shared sweep runs: what ran is recorded once, and all go on."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalemark.records.outcomes import State
from tests import postgresql
from tests.specs import small
from tests.sweeper.agents.test_agent import once_running
from tests.sweeper.agents.test_controller import controller
from tests.sweeper.processes import wait_until
from tests.sweeper.sharing import agent, begin, completed, reported, rows, states

pytestmark = pytest.mark.integration

ENDLESS, WAITS = 903, 907  # seeds of tests.tiny_trainer


@pytest.fixture
def server() -> Iterator[str]:
    """URL of a server of this test's own, which it may stop."""
    programs = postgresql.needed_programs(
        postgresql.find_programs(), in_ci=os.environ.get("CI") == "true"
    )
    with postgresql.server(programs) as url:
        yield url


@contextmanager
def stopped(server: str, mode: str) -> Iterator[None]:
    postgresql.stop(server, mode)
    yield
    postgresql.start(server)


def while_it_runs(process: subprocess.Popen[str], is_so: Callable[[], bool]) -> None:
    descriptor = os.pidfd_open(process.pid)
    wait_until(is_so, descriptor)
    os.close(descriptor)


def end_trials(process: subprocess.Popen[str], num: int) -> None:
    """Those that wait, so many; `process` may not end meanwhile."""
    Path("go").touch()
    while_it_runs(process, lambda: len(list(Path("runs").rglob("result.json"))) == num)


@pytest.mark.parametrize("mode", ["fast", pytest.param("immediate", marks=pytest.mark.slow)])
def test_agents_and_controller_wait_for_a_server_that_is_restarted(server, mode, tmp_path):
    watching = controller(server, f"seed={WAITS}", "sweep.repeats=5", "launcher.agents.lease_s=100")
    agents = [agent(server, locks=str(tmp_path / host)) for host in ("one", "two")]
    for one in agents:
        once_running(server, one)
    with stopped(server, mode):
        end_trials(watching, 2)
    while_it_runs(watching, lambda: len(completed(server)) >= 2)
    with stopped(server, mode):
        pass
    said = [reported(process) for process in (*agents, watching)]
    assert [process.returncode for process in (*agents, watching)] == [0, 0, 0], said
    assert "Traceback" not in "".join(said)
    assert states(server) == {State.COMPLETED: 5}
    assert len(completed(server)) == len(set(completed(server))) == 5
    assert rows(server, "SELECT count(*) FROM attempts") == [(5,)]  # none was run again


@pytest.mark.slow  # test_agent.py has an agent that its database does not answer
def test_agents_end_when_the_server_is_away_too_long(
    server,
):
    watching = controller(server, f"seed={WAITS}", "sweep.repeats=2", "launcher.agents.lease_s=3")
    first = agent(server)
    once_running(server, first)
    with stopped(server, "immediate"):
        first.send_signal(signal.SIGSTOP)  # so that the trial ends before it does
        end_trials(watching, 1)
        first.send_signal(signal.SIGCONT)
        said = reported(first)
    assert first.returncode == 2, said
    assert (
        "gave no sign for 3 s, so that others run what it ran: it is ended here; start another agent"
        in said
    )
    assert "Traceback" not in said
    while_it_runs(watching, lambda: len(completed(server)) == 1)  # from its run folder
    second = agent(server)
    said = reported(watching) + reported(second)
    assert (watching.returncode, second.returncode) == (0, 0), said
    assert states(server) == {State.COMPLETED: 2}
    assert rows(server, "SELECT count(*) FROM attempts") == [(2,)]
    assert "Traceback" not in said


@pytest.mark.slow  # the tests above have agents wait
def test_an_agent_that_waits_for_the_server_ends_at_the_second_ctrl_c(server):
    begin(server, [small(seed=ENDLESS)])
    waiting = agent(server)
    once_running(server, waiting)
    assert waiting.stderr is not None
    with stopped(server, "fast"):
        waiting.send_signal(signal.SIGINT)
        while "ending 1 running attempt" not in (line := waiting.stderr.readline()):
            assert line
        waiting.send_signal(signal.SIGINT)
        said = reported(waiting)
    assert waiting.returncode == 2, said
    assert "is the server there" in said.splitlines()[-1]
    assert "Traceback" not in said

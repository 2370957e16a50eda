"""`launcher=agents`: nothing more is started anywhere after Ctrl-C with sweep.on_interrupt=finish, or the failure that stops a sweep."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scalemark.records.outcomes import State
from sweeper.loop.source import Wish
from tests.sweeper.agents.test_agent import once_running
from tests.sweeper.agents.test_controller import controller
from tests.sweeper.processes import wait_until
from tests.sweeper.sharing import agent, reported, rows, states

pytestmark = pytest.mark.integration

FAILS, ENDLESS, SLOW, WAITS = 901, 903, 905, 907  # seeds of tests.tiny_trainer
ON_FINISH = "sweep.on_interrupt=finish"


@pytest.fixture
def agents(postgresql_url, tmp_path):
    """agents(): starts two, each on a host of its own."""
    return lambda: [agent(postgresql_url, locks=str(tmp_path / host)) for host in ("one", "two")]


def num_attempts(url: str) -> int:
    ((num,),) = rows(url, "SELECT sum(num_attempts) FROM repeats")
    return int(num)


def wish(url: str) -> Wish:
    ((reported,),) = rows(url, "SELECT coalesce(settings ->> 'wish', '0') FROM sweeps")
    return Wish(int(reported))


def while_it_runs(process: subprocess.Popen[str], is_so: Callable[[], bool]) -> None:
    descriptor = os.pidfd_open(process.pid)
    wait_until(is_so, descriptor)
    os.close(descriptor)


def test_on_interrupt_finish_lets_all_hosts_finish_what_runs(postgresql_url, agents):
    watching = controller(postgresql_url, f"seed={WAITS}", "sweep.repeats=4", ON_FINISH)
    both = agents()
    for one in both:
        once_running(postgresql_url, one)
    watching.send_signal(signal.SIGINT)
    while_it_runs(watching, lambda: wish(postgresql_url) == Wish.FINISH)
    Path("go").touch()
    said = reported(watching)
    assert watching.returncode == 130, said
    ended = [(reported(one), one.returncode) for one in both]
    assert [code for _, code in ended] == [0, 0], ended
    assert states(postgresql_url) == {State.COMPLETED: 2, State.PENDING: 2}
    assert rows(postgresql_url, "SELECT outcome FROM attempts") == [("completed",)] * 2
    assert "waiting for 2 running attempts; Ctrl-C once more kills" in said
    assert "2 completed, 2 not started" in said


def test_a_second_ctrl_c_ends_at_once_what_was_to_come_to_its_end(postgresql_url, agents):
    watching = controller(
        postgresql_url,
        f"seed={ENDLESS}",
        "sweep.repeats=3",
        ON_FINISH,
        "launcher.agents.lease_s=20",
    )
    both = agents()
    for one in both:
        once_running(postgresql_url, one)
    watching.send_signal(signal.SIGINT)
    while_it_runs(watching, lambda: wish(postgresql_url) == Wish.FINISH)
    assert states(postgresql_url) == {State.RUNNING: 2, State.PENDING: 1}
    watching.send_signal(signal.SIGINT)
    said = reported(watching)
    assert watching.returncode == 130, said
    assert [(reported(one), one.returncode)[1] for one in both] == [130, 130]
    assert states(postgresql_url) == {State.PENDING: 3}
    assert rows(postgresql_url, "SELECT DISTINCT outcome FROM attempts") == [("interrupted",)]


def test_on_failure_stop_stops_all_hosts(postgresql_url, agents):
    watching = controller(
        postgresql_url, f"seed={SLOW},{FAILS}", "sweep.repeats=20", "sweep.on_failure=stop"
    )
    both = agents()
    said = reported(watching)
    ended = [(reported(one), one.returncode) for one in both]
    assert watching.returncode == 1, said
    assert [code for _, code in ended] == [0, 0], ended
    found = states(postgresql_url)
    assert set(found) == {State.COMPLETED, State.FAILED, State.PENDING}
    assert num_attempts(postgresql_url) == found[State.COMPLETED] + found[State.FAILED]
    assert "sweep.on_failure=stop: nothing more is started" in said
    assert f"{found[State.FAILED]} failed, {found[State.PENDING]} not started" in said
    assert "failed: as it was reported" in said

"""The supervisor kills the groups it still knows of, and is replaced when somebody kills it."""

import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from sweeper.starts.supervisor import Supervisor
from tests.slurm import until
from tests.sweeper.processes import assert_gone


@pytest.fixture
def supervisor():
    with closing(Supervisor()) as supervisor:
        yield supervisor


@pytest.fixture
def group():
    yield from started()


@pytest.fixture
def other_group():
    yield from started()


def started():
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    yield process
    process.kill()
    process.wait()


def _supervisors() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if "supervisor.py" in [Path(part).name for part in _command(child)]
    ]


def _command(process: psutil.Process) -> list[str]:
    """Empty for one that has ended, be it a zombie still."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def test_closing_kills_the_groups_that_are_listed(supervisor, group):
    supervisor.add(group.pid)
    supervisor.close()
    assert group.wait() == -9


def test_a_supervisor_that_was_stopped_holds_nobody_up(supervisor, group):
    supervisor.add(group.pid)
    (process,) = until(
        _supervisors
    )  # Linux tells the command of a new program a moment after it has begun
    process.suspend()
    supervisor.close()
    assert group.wait() == -9


def test_a_removed_group_is_left_alone(supervisor, group):
    supervisor.add(group.pid)
    supervisor.remove(group.pid)
    supervisor.close()
    assert group.poll() is None


def test_a_killed_supervisor_is_replaced_and_reported_everything(supervisor, group, other_group):
    supervisor.add(group.pid)
    (first,) = until(
        _supervisors
    )  # Linux tells the command of a new program a moment after it has begun
    first.kill()
    assert_gone(first.pid)
    supervisor.add(other_group.pid)
    supervisor.close()
    assert (group.wait(), other_group.wait()) == (-9, -9)


def test_a_stopped_supervisor_does_its_work_when_its_orchestrator_is_killed(group):
    code = f"""
import time
from sweeper.starts.supervisor import Supervisor
supervisor = Supervisor()
supervisor.add({group.pid})
print(supervisor._process.pid, flush=True)
time.sleep(600)
"""
    orchestrator = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(orchestrator.stdout.readline())
    stopped = psutil.Process(pid)
    # until it is ready for this: a signal that comes before would stop it for good
    until(lambda: _ignores_interrupts(pid))
    stopped.suspend()
    until(lambda: stopped.status() == psutil.STATUS_STOPPED)
    orchestrator.kill()
    orchestrator.wait()
    orchestrator.stdout.close()
    assert group.wait(300) == -9
    assert_gone(pid)


def _ignores_interrupts(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (ignored,) = (int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))
    return bool(ignored & 2)

"""A guard kills what its process had started once that has ended, and nothing else."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from tests.slurm import until
from tests.sweeper.processes import assert_gone

pytestmark = pytest.mark.integration

SLEEPS = "import time; time.sleep(600)"
ORCHESTRATOR = f"""
import os, subprocess, sys, time
from scalemark.host.orphans import Guard
guard = Guard()
variables = {{**os.environ, "{ORCHESTRATOR_VARIABLE}": str(os.getpid())}}
sleeps = [sys.executable, "-c", "{SLEEPS}"]
started = [
    subprocess.Popen(sleeps, env=variables),
    subprocess.Popen(sleeps, env=variables, start_new_session=True),
]
print(guard.pid, *(process.pid for process in started), flush=True)
asked = sys.stdin.readline()
if asked == "end slowly\\n":  # Linux closes the files of a process before it has ended
    os.close(guard._ours)
    print("closed", flush=True)
    time.sleep(1)
elif asked:
    guard.close()
    print("closed", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def orchestrator():
    command = [sys.executable, "-c", ORCHESTRATOR]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        yield process
        process.kill()


def _is_ready(guard: int) -> bool:
    """Whether a signal to stop it no longer comes before it asked to be woken."""
    return psutil.Process(guard).num_fds() == 1


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_a_killed_orchestrator_had_started_is_killed(orchestrator, is_stopped):
    guard, *started = map(int, orchestrator.stdout.readline().split())
    until(lambda: _is_ready(guard))
    if is_stopped:
        os.kill(guard, signal.SIGSTOP)
        until(lambda: psutil.Process(guard).status() == psutil.STATUS_STOPPED)
    orchestrator.kill()
    for pid in (*started, guard):
        assert_gone(pid)


def test_a_guard_waits_for_an_orchestrator_that_takes_its_time_to_end(orchestrator):
    """A bug: of 35 killed sweeps 5 left their program, which had not outlived its watcher yet."""
    guard, *started = map(int, orchestrator.stdout.readline().split())
    print("end slowly", file=orchestrator.stdin, flush=True)
    assert orchestrator.stdout.readline() == "closed\n"
    for pid in (*started, guard):
        assert_gone(pid)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_guard_that_is_sent_home_kills_nothing(orchestrator, is_stopped):
    guard, *started = map(int, orchestrator.stdout.readline().split())
    if is_stopped:
        os.kill(guard, signal.SIGSTOP)
    print("close", file=orchestrator.stdin, flush=True)
    assert orchestrator.stdout.readline() == "closed\n"
    assert_gone(guard)
    for pid in started:
        assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        os.kill(pid, signal.SIGKILL)


INTERRUPTED = """
import os, signal
from scalemark.host.orphans import Guard
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    Guard()
except KeyboardInterrupt:
    print("heard")
"""


def test_an_interrupt_while_a_guard_is_forked_is_not_lost():
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == ("heard\n", "")

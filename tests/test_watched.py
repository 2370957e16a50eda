"""A program of several processes that is stuck does not keep a test waiting, and says where it is stuck."""

import os
import subprocess
import sys

import psutil
import pytest

from tests import stuck, watched
from tests.ends import ends
from tests.sweeper import processes

pytestmark = pytest.mark.integration

STUCK = """
import ctypes, os, signal, sys
from trainer import own_process

def serves():
    own_process.die_with(starter)
    os.write(1, b"begun\\n")  # at once: two processes write
    while True:
        signal.pause()

def waits_without_an_end_and_keeps_the_interpreter():
    os.write(1, b"begun\\n")  # at once: two processes write
    ctypes.PyDLL(None).pause()

starter = os.getpid()
if os.fork() == 0:
    serves()
waits_without_an_end_and_keeps_the_interpreter()
"""


def test_a_stuck_program_ends_and_tells_the_stacks_of_all_its_processes(tmp_path):
    with (tmp_path / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", STUCK],
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | stuck.TELLS,
            text=True,
        )
    with process:
        try:
            assert process.stdout
            assert [process.stdout.readline() for _ in ("child", "parent")] == ["begun\n"] * 2
            (child,) = psutil.Process(process.pid).children()
            with ends([child]):
                reported = stuck.stacks(process.pid)
        finally:
            process.kill()  # where the test fails: it never ends by itself
    assert reported.splitlines()[0].startswith(f"{process.pid} python")
    assert reported.splitlines()[1].startswith(f"{child.pid} python")
    assert "in serves\n" in reported
    assert "in waits_without_an_end_and_keeps_the_interpreter\n" in reported


def test_the_process_of_a_pidfd_is_reported():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        descriptor = os.pidfd_open(process.pid)
        assert stuck.of_descriptor(descriptor).startswith(f"{process.pid} ")
        process.wait()
        assert stuck.of_descriptor(descriptor) == "it has ended"
        os.close(descriptor)


@pytest.mark.parametrize(
    "wait",
    [lambda descriptor: processes.wait_until(lambda: False, descriptor), processes.wait_for_end],
)
def test_what_waits_in_vain_for_a_process_ends_it_and_tells(monkeypatch, wait):
    monkeypatch.setattr(processes, "PATIENCE_S", 0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        descriptor = os.pidfd_open(process.pid)
        with pytest.raises(pytest.fail.Exception, match=rf" 0 s.*:\n{process.pid} "):
            wait(descriptor)
        os.close(descriptor)


def test_a_program_that_falls_silent_fails_its_test():
    with pytest.raises(
        pytest.fail.Exception, match=r"^it printed nothing for 0 s, and last '':\n\d+ python"
    ):
        watched.run([sys.executable, "-c", "import signal; signal.pause()"], silent_s=0.0)


def test_a_program_that_fails_fails_its_test_with_what_it_said():
    with pytest.raises(pytest.fail.Exception, match=r"^it ended with 3: of two minds$"):
        watched.run(
            [sys.executable, "-c", "import sys; sys.stderr.write('of two minds'); sys.exit(3)"]
        )


def test_what_a_program_printed_is_there():
    assert watched.run([sys.executable, "-c", "print('one'); print('two')"]) == "one\ntwo\n"

"""The fork server keeps to its protocol, and leaves TensorFlow as a fresh import does."""

import json
import os
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from scalemark.run_folder import RunFolder
from tests.specs import small

pytestmark = pytest.mark.integration


class Server:
    def __init__(self, module: str) -> None:
        self.socket, its = socket.socketpair()
        self.lines = self.socket.makefile("r")
        with its:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "trainer.fork_server",
                    str(its.fileno()),
                    module,
                ],
                pass_fds=[its.fileno()],
                env=os.environ | {ORCHESTRATOR_VARIABLE: str(os.getpid())},
            )

    def answer(self):
        return json.loads(self.lines.readline())

    def ask(self, **order):
        self.socket.sendall(json.dumps(order).encode() + b"\n")
        return self.answer()

    def close(self):
        self.lines.close()
        self.socket.close()
        assert self.process.wait() == 0


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.trial.write_text(small().to_json())
    return folder


def run_script(server, folder, script):
    (folder.path / "script.py").write_text(script)
    pid = server.ask(start=str(folder.path), environment={"ONLY": "this"})["pid"]
    return server.ask(reap=pid)


def test_the_trainer_loads_in_one_thread_and_without_libcuda():
    with closing(Server("trainer.__main__")) as server:
        assert server.answer() == {"num_threads": 1, "libcuda": False}


def test_the_server_ends_well_at_the_end_of_its_socket():
    with closing(Server("tests.sweeper.starts.scripted")) as server:
        server.answer()
    assert server.process.returncode == 0


def test_an_impossible_order_ends_the_trainer_and_not_the_server(folder, tmp_path):
    with closing(Server("tests.sweeper.starts.scripted")) as server:
        server.answer()
        pid = server.ask(start=str(tmp_path / "missing"), environment={})["pid"]
        assert server.ask(reap=pid) == {"exit_code": 1}
        assert run_script(server, folder, "exit_code = 5") == {"exit_code": 5}


def test_a_trainer_has_its_own_variables_and_no_socket(folder):
    script = """
import os
open_files = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
(folder / "found").write_text(f"{sorted(os.environ)} {any('socket:' in name for name in open_files)}")
"""
    with closing(Server("tests.sweeper.starts.scripted")) as server:
        server.answer()
        run_script(server, folder, script)
    assert (folder.path / "found").read_text() == "['ONLY'] False"


def test_a_trial_that_cannot_be_read_is_bad_usage(folder):
    folder.trial.write_text("{}")
    with closing(Server("tests.sweeper.starts.scripted")) as server:
        server.answer()
        assert run_script(server, folder, "") == {"exit_code": 2}
    assert "wanted the trial.json of a run folder" in folder.log.read_text()

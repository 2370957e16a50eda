"""Every command ends quietly at Ctrl-C, also while it loads or ends, and works whatever it was started with."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from store.database import open_for_writing
from tests.conftest import PROJECT
from tests.sweeper.processes import wait_for_end, wait_until
from tests.test_sweep import REAL, SCRIPTED, outcomes

pytestmark = pytest.mark.integration

INTERRUPTS = """
import atexit, os, runpy, signal, sys

def interrupt(*_):
    os.kill(os.getpid(), signal.SIGINT)

class AtImport:
    def find_spec(self, name, *_):
        if name == "{at}":
            interrupt()

sys.meta_path.insert(0, AtImport())
if "{at}" == "the end":
    atexit.register(interrupt)
sys.path.insert(0, "{project}")
sys.argv = [*"{name}".split(), "--help"]
if "{name}".endswith(".py"):
    runpy.run_path("{project}/{name}", run_name="__main__")
else:
    runpy.run_module("{name}".split()[0], run_name="__main__", alter_sys=True)
"""
TINY = ["engine=simulated", "hardware=p100_pcie_8", "model=trivial", "launcher.start=spawn"]


def interrupted(name: str, at: str) -> subprocess.CompletedProcess[str]:
    script = INTERRUPTS.format(name=name, at=at, project=PROJECT)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("scalemark list", "sqlalchemy"),
        ("scalemark status", "typer"),
        ("scalemark table", "typer"),
        ("scalemark advise", "typer"),
        ("trainer", "scalemark.records.switches"),
        ("simulator", "simulator.run"),
        ("sweep.py", "omegaconf"),
    ],
)
def test_ctrl_c_while_a_command_is_loaded_ends_it_quietly(name, at):
    ended = interrupted(name, at)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_ctrl_c_ends_the_console_script_quietly_as_soon_as_it_is_ours():
    script = INTERRUPTS.partition("sys.argv")[0].format(
        at="scalemark.cli.commands", project=PROJECT
    )
    command = [
        sys.executable,
        "-c",
        f"{script}sys.argv = ['/bin/scalemark']\nfrom scalemark.__main__ import main",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_who_imports_the_program_keeps_its_own_ways_with_ctrl_c():
    script = "import signal; from scalemark import __main__; print(signal.getsignal(2))"
    command = [sys.executable, "-c", script]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT).stdout
    assert "default_int_handler" in shown


def test_little_is_imported_before_ctrl_c_is_heard():
    """A bug: the imports of `signal` and `traceback` took 25 ms, with a traceback for an answer."""
    script = f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
    script += "from scalemark.cli import entry_point; print(*sys.modules)"
    command = [sys.executable, "-S", "-c", script]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "scalemark.cli.entry_point" in imported
    assert not {"enum", "re", "signal", "traceback", "typing"}.intersection(imported)


@pytest.mark.parametrize("name", ["scalemark list", "scalemark status", "scalemark db", "sweep.py"])
def test_ctrl_c_while_python_tidies_up_is_quiet(name):
    ended = interrupted(name, "the end")
    assert (ended.returncode, ended.stderr) == (130, "")
    assert "Usage" in ended.stdout or "Hydra's own flags" in ended.stdout


def simulated(redirected: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A small sweep, by a shell that redirects its output so."""
    command = ["bash", "-c", f'exec "$@" {redirected}', "sh", *REAL, *TINY, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("redirected", [">&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_sweep_without_some_stream_runs_and_draws(redirected):
    ended = simulated(redirected)
    assert ended.returncode == 0, ended.stderr
    assert "Error" not in ended.stderr
    assert outcomes() == ["completed"]
    assert Path("figures/report.html").exists()
    with closing(sqlite3.connect("results.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_tables_that_cannot_be_written_are_said_and_the_rest_is_drawn():
    ended = simulated(">/dev/full")
    assert ended.returncode == 1
    assert (
        "sweep: no tables: No space left on device; the results are stored, see scalemark table"
        in ended.stderr
    )
    assert Path("figures/report.html").exists()


@pytest.mark.parametrize("inherited", ["trap '' CHLD", "trap '' PIPE", "trap '' INT TERM HUP"])
def test_what_a_shell_ignores_disturbs_no_sweep(inherited):
    command = [
        "bash",
        "-c",
        f'{inherited}; exec "$@"',
        "sh",
        *SCRIPTED,
        "-m",
        "model=trivial",
        "seed=1,901",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcomes() == ["completed", "failed"], ended.stderr
    assert "spawned instead" not in ended.stderr
    with closing(sqlite3.connect("results.db")) as connection:
        assert connection.execute("SELECT exit_code FROM attempts ORDER BY id").fetchall() == [
            (0,),
            (1,),
        ]


def test_a_sweep_whose_starter_blocked_all_signals_can_be_ended():
    blocked = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        process = subprocess.Popen(
            [*SCRIPTED, "model=trivial", "seed=1,903", "-m"], stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert process.stderr
    with process, process.stderr:
        for line in process.stderr:
            if line.startswith("[1/2]"):
                break
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert Path("results.db").exists()


def interrupted_sweep(times: int = 1) -> str:
    """What a sweep of 999 repeats says after so many Ctrl-C, which it gets when its first trial has ended."""
    process = subprocess.Popen(
        [*REAL, *TINY, "sweep.name=mine", "sweep.repeats=999"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    with process, process.stderr:
        for line in process.stderr:
            if line.startswith("["):
                break
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130, said
    return said


def test_an_interrupted_sweep_draws_nothing_and_tells_how_to():
    Path("figures").mkdir()
    Path("figures/report.html").write_text("of the sweep before")
    said = interrupted_sweep()
    assert [path.name for path in Path("figures").iterdir()] == ["report.html"]
    assert Path("figures/report.html").read_text() == "of the sweep before"
    assert said.splitlines()[-2:] == [
        "sweep: nothing was drawn; scalemark chart --sweep mine --out FOLDER draws what there is",
        "sweep: interrupted; repeat the command to run what is left",
    ]


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def asked(url: str, is_busy: Callable[[int], bool]) -> tuple[int, str]:
    """How `db query` of an endless query ends when it is interrupted once, while the database looks for the answer."""
    command = [sys.executable, "-m", "scalemark", "db", "query", ENDLESS, "--db", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        descriptor = os.pidfd_open(process.pid)
        wait_until(lambda: is_busy(process.pid), descriptor)
        process.send_signal(signal.SIGINT)
        wait_for_end(descriptor)
        os.close(descriptor)
        assert process.stderr
        return process.wait(), process.stderr.read()


def test_an_endless_query_of_a_file_ends_at_the_first_ctrl_c():
    open_for_writing("results.db").dispose()

    opened_at: list[float] = []  # CPU seconds

    def is_busy(pid: int) -> bool:
        """For two CPU seconds since it has opened the database."""
        process = psutil.Process(pid)
        if not opened_at and any(
            Path(file.path).name == "results.db" for file in process.open_files()
        ):
            opened_at.append(process.cpu_times().user)
        return bool(opened_at) and process.cpu_times().user > opened_at[0] + 2

    assert asked("results.db", is_busy) == (130, "")


def test_an_endless_query_of_a_server_ends_at_the_first_ctrl_c(postgresql_url):
    engine = open_for_writing(postgresql_url)
    working = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'FETCH%'"
    )

    def num_working() -> int:
        with engine.connect() as connection:
            return connection.scalar(working) or 0

    assert asked(postgresql_url, lambda _: num_working() == 1) == (130, "")
    assert num_working() == 0
    engine.dispose()


@pytest.mark.parametrize("command", [["sweep.py"], ["-m", "scalemark", "list"], ["-m", "trainer"]])
def test_a_python_without_our_packages_says_how_to_get_them(command):
    ran = subprocess.run(
        [sys.executable, "-S", *command, "--help"],  # without site-packages
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert "run `python3 install.py`" in ran.stderr
    assert "Traceback" not in ran.stderr

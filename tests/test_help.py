"""`--help` of every command is its text on stdout, exit code 0 and nothing else: it starts nothing and writes nothing."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from analysis.__main__ import app as analysis
from plots.__main__ import app as plots
from store.__main__ import app as store
from sweeper.__main__ import app as sweeper
from tests.app import run_app
from tests.conftest import PROJECT

PROGRAMS = [
    *(["-m", name] for name in ("analysis", "plots", "simulator", "store", "sweeper", "trainer")),
    ["-m", "trainer", "selfcheck"],
    ["sweep.py"],
    ["install.py"],
]
CPU_DEVICES = {"noop_trainer.py", "worker.py"}  # started by other benchmarks alone


@pytest.mark.integration
@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_help_of_each_program_is_all_that_it_says(program: list[str]):
    ended = subprocess.run(
        [sys.executable, *program, "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout


def commands(of: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    """The names of a command and of all below it."""
    yield names
    for name, command in getattr(of, "commands", {}).items():
        yield from commands(command, *names, name)


APPS = {"analysis": analysis, "plots": plots, "store": store, "sweeper": sweeper}
SUBCOMMANDS = [
    (name, *names)
    for name, app in APPS.items()
    for names in commands(typer.main.get_command(app.typer()))
]


@pytest.mark.parametrize("command", SUBCOMMANDS, ids=" ".join)
def test_help_of_each_command_is_all_that_it_says(command: tuple[str, ...], capsys, monkeypatch):
    name, *names = command
    ended = run_app(APPS[name], name, capsys, monkeypatch, *names, "--help")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "Usage: " in ended.stdout
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("folder", ["benchmarks", "docs"])
def test_each_script_reads_its_arguments_so_that_help_starts_nothing(folder: str):
    scripts = [
        path
        for path in (PROJECT / folder).glob("*.py")
        if "__main__" in path.read_text() and path.name not in CPU_DEVICES
    ]
    assert scripts
    readers = ("argparse", "typer", "benchmarks.asking", "hydra.main(")
    assert [
        path.name for path in scripts if not any(reader in path.read_text() for reader in readers)
    ] == []


def test_a_simulator_without_its_arguments_says_which_it_wants():
    ended = subprocess.run(
        [sys.executable, "-m", "simulator", "trial.json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=PROJECT,
    )
    assert ended.returncode == 2
    assert "usage: python -m simulator [-h] TRIAL.json RUN_DIR" in ended.stderr

"""`--help` of every command is its text on stdout, exit code 0 and nothing else: it starts nothing and writes nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from scalemark.cli.commands import COMMANDS, DB
from tests.app import run_app
from tests.conftest import PROJECT
from tests.ran import ran

PROGRAMS = [
    *(["-m", name] for name in ("scalemark", "simulator", "trainer")),
    ["-m", "trainer", "selfcheck"],
    ["sweep.py"],
    ["install.py"],
]
CPU_DEVICES = {"noop_trainer.py", "worker.py"}  # started by other benchmarks alone


@pytest.mark.integration
@pytest.mark.parametrize("program", PROGRAMS, ids=" ".join)
def test_help_of_each_program_is_all_that_it_says(program: list[str]):
    ended = ran([sys.executable, *program, "--help"], cwd=PROJECT, stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout


WORDS = [[name] for name, command in COMMANDS.items() if not command.reads_arguments]
WORDS += [["read"], ["db"], *(["db", name] for name in DB)]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_help_of_each_command_is_all_that_it_says(words: list[str], capsys, monkeypatch):
    ended = run_app(capsys, monkeypatch, *words, "--help")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "Usage: " in ended.stdout
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_help_fits_a_narrow_terminal_without_colors_or_boxes(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = run_app(capsys, monkeypatch, *words, "--help").stdout.splitlines()
    assert [line for line in lines if len(line) > 40 or not line.isascii() or "\x1b" in line] == []


@pytest.mark.integration
@pytest.mark.parametrize("width", [72, 80])
@pytest.mark.parametrize("command", ["sweep", "read", "selfcheck"])
def test_help_of_what_reads_its_own_arguments_fits_the_terminal(command, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    ended = ran([sys.executable, "-m", "scalemark", command, "--help"], cwd=PROJECT)
    typed = ("python ", "'")  # is copied, and so not folded
    lines = [line for line in ended.stdout.splitlines() if not line.lstrip().startswith(typed)]
    assert lines
    assert [line for line in lines if len(line) > width] == []


def test_help_of_a_group_breaks_no_sentence(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    listed = run_app(capsys, monkeypatch, "db", "--help").stdout.split("Commands")[1]
    starts = [line[:9].strip() for line in listed.splitlines()[1:]]
    assert [word for word in starts if word] == list(DB)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "status mine",
            "status: got unexpected extra argument(s) (mine); usage: scalemark status ",
        ),
        ("compare A", "compare: missing argument 'B'; usage: scalemark compare [OPTIONS] {A} {B} "),
        ("show", "show: missing argument 'which'; usage: scalemark show [OPTIONS] {which}"),
        ("list --limit", "list: option '--limit' requires an argument"),
    ],
)
def test_a_wrong_use_is_answered_in_one_line(words, message, capsys, monkeypatch):
    ended = run_app(capsys, monkeypatch, *words.split())
    assert ended.exit_code == 2
    assert ended.stderr.startswith(message)
    assert ended.stderr.count("\n") == 1


def test_there_are_at_most_24_commands():
    assert len(COMMANDS) - 1 + len(DB) <= 24  # `db` is the folder of its commands


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
    ended = ran([sys.executable, "-m", "simulator", "trial.json"], cwd=PROJECT)
    assert ended.returncode == 2
    assert "usage: python -m simulator [-h] TRIAL.json RUN_DIR" in ended.stderr

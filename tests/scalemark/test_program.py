"""`scalemark COMMAND` finds each command, and nothing of the current folder takes the place of ours."""

import os
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from scalemark.__main__ import main
from scalemark.cli.commands import COMMANDS, DB
from store.database import open_for_writing
from tests.conftest import PROJECT

OURS = (
    *(
        "scalemark",
        "store",
        "plots",
        "analysis",
        "conf",
        "simulator",
        "sweeper",
        "trainer",
    ),
    *("sweep", "hydra_plugins"),
)
LIBRARIES = ("yaml", "numpy", "rich", "pandas")
ORIGIN = ("--origin", "simulated")
TINY = ["engine=simulated", "hardware=p100_pcie_8", "model=trivial", "num_gpus=1,2"]


def scalemark(
    *arguments: str, path: str | None = None, first: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the program in the current folder, as its console script does: that folder is no part of the import path."""
    script = "import sys; from scalemark.__main__ import main; sys.exit(main())"
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, *(first or ("-P", "-c", script)), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=inherited if path is None else inherited | {"PYTHONPATH": path},
    )


def test_help_lists_every_command_with_a_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, command in COMMANDS.items():
        assert [line.split() for line in lines if line.split()[:1] == [name]] == [
            [name, *command.about.split()]
        ]


@pytest.mark.integration
def test_every_command_has_its_function():
    for command in (*COMMANDS.values(), *DB.values()):
        module, _, function = command.function.partition(":")
        assert callable(getattr(import_module(module), function))


HEAVY = {
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "hydra",
    "omegaconf",
    "pyarrow",
    "jinja2",
    "psycopg",
}
LIGHT = {"typer", "rich", "sqlalchemy", "store"}  # what reading a database takes
SLOW = {"sqlalchemy.orm", "sqlalchemy.dialects.postgresql"}


UNWANTED = {
    "--help": HEAVY | LIGHT,
    "--version": HEAVY | LIGHT,
    "list": HEAVY | SLOW,
    "list --help": HEAVY | SLOW,
    "db query 'SELECT 1'": HEAVY | SLOW,
    "status": HEAVY | SLOW,
    "table": HEAVY | SLOW,
    "chart --help": HEAVY | SLOW,
    "advise": (HEAVY | SLOW) - {"numpy"},
    "explain": (HEAVY | SLOW) - {"numpy"},
}


@pytest.mark.integration
@pytest.mark.parametrize("command", UNWANTED)
def test_a_command_imports_no_library_that_it_does_not_use(command):
    open_for_writing("results.db").dispose()
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('imported', *sys.modules, file=sys.stderr))\n"
        f"from scalemark.__main__ import main; main({shlex.split(command)})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    *_, modules = ended.stderr.splitlines()
    assert modules.startswith("imported sys ")
    assert set(modules.split()) & UNWANTED[command] == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lst"], "no command 'lst'; did you mean scalemark list?"),
        (["tables"], "no command 'tables'; did you mean scalemark table?"),
        (["merge", "b.db"], "no command 'merge': it is scalemark db merge"),
        (["plot"], "no command 'plot': it is scalemark chart"),
        (["tags"], "no command 'tags'; did you mean scalemark db mark?"),
        (["nothing"], "no command 'nothing'; choose one of sweep, read, list, show"),
        ([], "which command?"),
    ],
)
def test_a_wrong_command_is_refused_with_the_right_one(arguments, said, capsys):
    assert main(arguments) == 2
    reported = capsys.readouterr()
    assert reported.out == ""
    assert f"scalemark: {said}" in reported.err


@pytest.mark.integration
@pytest.mark.parametrize("word", [name for name in COMMANDS if name != "sweep"])
def test_the_help_of_a_command_names_it_as_it_was_called(word):
    ended = scalemark(word, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"usage: scalemark {word}" in ended.stdout.lower()


def write_hostile(*names: str) -> None:
    for name in names:
        Path(f"{name}.py").write_text(f"raise SystemExit('imported {name}.py of the user')")


@pytest.mark.integration
def test_files_of_the_current_folder_are_never_imported():
    write_hostile(*OURS, *LIBRARIES)
    for start in ("fork", "spawn"):
        swept = scalemark("sweep", "-m", *TINY, f"launcher.start={start}", "sweep.rerun=true")
        assert "2 completed" in swept.stderr
        assert "spawned instead" not in swept.stderr
    for arguments in (["list"], ["table"], ["scaling"], ["status"]):
        ended = scalemark(*arguments, *(ORIGIN if arguments[0] in ("table", "scaling") else ()))
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout


@pytest.mark.integration
def test_python_m_finds_our_files_before_those_of_the_folder():
    write_hostile(*(name for name in OURS if name != "scalemark"), *LIBRARIES)
    assert "2 completed" in scalemark("sweep", "-m", *TINY, first=("-m", "scalemark")).stderr


@pytest.mark.integration
def test_files_on_the_python_path_never_take_the_place_of_ours():
    write_hostile(*(name for name in OURS if name != "scalemark"))
    assert "2 completed" in scalemark("sweep", "-m", *TINY, path=".:").stderr


@pytest.mark.integration
def test_a_sweep_records_the_command_that_was_typed():
    assert scalemark("sweep", *TINY[:3], "sweep.name=mine").returncode == 0
    asked = scalemark("db", "query", "--json", "SELECT command FROM sweeps")
    assert f"scalemark sweep {' '.join(TINY[:3])} sweep.name=mine" in asked.stdout


def test_a_folder_that_was_removed_is_reported(tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["status"]) == 2
    assert "the current folder was removed; change to another one" in capsys.readouterr().err

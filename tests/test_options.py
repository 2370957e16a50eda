"""An option means the same in every command that has it, and every command that prints a result has --json."""

import json

import click
import pytest
import typer

from analysis.__main__ import app as analysis
from plots.__main__ import app as plots
from store.__main__ import app as store
from store.command_line import App
from sweeper.__main__ import app as sweeper
from tests.app import run_app
from tests.filled import fill
from tests.specs import small

APPS: dict[str, App] = {"analysis": analysis, "plots": plots, "store": store, "sweeper": sweeper}
WITHOUT_DATABASE = {"sweeper probe"}
OF_FILES_AND_TABLES = {
    "plots charts",
    "plots tables",
    "store list",
    "store query",
}


def leaves(of: click.Command, name: str) -> dict[str, click.Command]:
    """The commands below a name, by their full names."""
    found: dict[str, click.Command] = {}
    for word, command in getattr(of, "commands", {}).items():
        found |= leaves(command, f"{name} {word}")
    return found or {name: of}


COMMANDS: dict[str, click.Command] = {}
for name, app in APPS.items():
    COMMANDS |= leaves(typer.main.get_command(app.typer()), name)


def options(name: str) -> dict[str, str]:
    """The help of each option of a command."""
    found = {}
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            found[option] = str(getattr(parameter, "help", ""))
    return found


def having(option: str) -> set[str]:
    return {name for name in COMMANDS if option in options(name)}


def test_every_command_takes_a_database_and_prints_json():
    assert having("--db") == set(COMMANDS) - WITHOUT_DATABASE
    assert having("--json") == set(COMMANDS)


@pytest.mark.parametrize("option", ["--db", "--json", "--source", "--baseline", "--all", "--brief"])
def test_an_option_is_explained_alike_everywhere(option):
    others = {"--baseline": {"sweeper judge"}}
    assert len({options(name)[option] for name in having(option) - others.get(option, set())}) == 1


def test_formats_and_themes_are_of_files_and_tables_alone():
    assert having("--format") == OF_FILES_AND_TABLES
    assert having("--theme") == {"plots charts"}


TRIAL = small().trial_id[:4]


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["tag", TRIAL, "good"], {"target", "tags", "added"}),
        (["tag", TRIAL, "good", "--remove"], {"target", "tags", "taken_away"}),
        (["note", "1", "a word"], {"target", "note"}),
        (["delete", TRIAL, "--yes"], {"deleted"}),
        (["restore", "1"], {"restored"}),
        (["reference", "remove", "source=mine"], {"removed", "kept"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_that_changes_something_tells_it_in_json(capsys, monkeypatch, words, keys):
    fill("results.db", [(small(), 100.0)])
    ended = run_app(store, "store", capsys, monkeypatch, *words, "--json")
    assert (ended.exit_code, set(json.loads(ended.stdout))) == (0, keys)


@pytest.mark.parametrize(
    ("name", "words"),
    [("analysis", ["guard", "--min-change", "nan"])],
)
def test_what_is_no_number_is_told_so_and_not_that_it_is_too_large(
    capsys, monkeypatch, name, words
):
    ended = run_app(APPS[name], name, capsys, monkeypatch, *words)
    assert (ended.exit_code, f"{words[-1]}; wanted a number " in ended.stderr) == (2, True)

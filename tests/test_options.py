"""An option means the same in every command that has it, and every command that prints a result has --json."""

import json

import click
import pytest
import typer

from scalemark.cli.commands import COMMANDS as WORDS
from scalemark.cli.commands import DB, Command
from store.command_line import typer_app
from tests.app import run_app
from tests.filled import fill
from tests.specs import small

WITHOUT_DATABASE = {"probe"}
OF_FILES_AND_TABLES = {"chart", "table", "list"}


def commands_of(words: dict[str, Command], prefix: str = "") -> dict[str, click.Command]:
    """Return the commands that typer runs, by their full names."""
    group = typer.main.get_command(typer_app(words))
    return {f"{prefix}{name}": command for name, command in group.commands.items()}  # type: ignore[attr-defined]


COMMANDS: dict[str, click.Command] = commands_of(
    {name: command for name, command in WORDS.items() if not command.reads_arguments}
) | commands_of(dict(DB), "db ")


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


@pytest.mark.parametrize("option", ["--db", "--json", "--source", "--baseline", "--all"])
def test_an_option_is_explained_alike_everywhere(option):
    others = {"--baseline": {"judge"}}
    assert len({options(name)[option] for name in having(option) - others.get(option, set())}) == 1


def test_formats_are_of_files_and_tables_alone():
    assert having("--format") == OF_FILES_AND_TABLES


TRIAL = small().trial_id[:4]


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["db", "mark", TRIAL, "--tag", "good"], {"target", "tags_added"}),
        (["db", "mark", TRIAL, "--untag", "good"], {"target", "tags_taken_away"}),
        (["db", "mark", TRIAL, "--delete"], {"deleted"}),
        (["db", "mark", "1", "--restore"], {"restored"}),
        (["db", "import", "--remove", "num_gpus=8"], {"removed", "kept"}),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_a_command_that_changes_something_tells_it_in_json(capsys, monkeypatch, words, keys):
    fill("results.db", [(small(), 100.0)])
    ended = run_app(capsys, monkeypatch, *words, "--json")
    assert (ended.exit_code, set(json.loads(ended.stdout))) == (0, keys)


def test_what_is_no_number_is_told_so_and_not_that_it_is_too_large(capsys, monkeypatch):
    ended = run_app(capsys, monkeypatch, "guard", "--min-change", "nan")
    assert (ended.exit_code, "nan; wanted a number; usage: " in ended.stderr) == (2, True)

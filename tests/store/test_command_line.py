"""How commands end: when the reader of their output leaves, and with an error."""

import json
import os
import sys

import pytest
import sqlalchemy as sa
import typer

from scalemark.cli.commands import Command
from scalemark.cli.terminal import reader_may_leave
from store.command_line import Json, run
from store.database import own_command
from store.errors import StoreError


def talks() -> None:
    print("a line", flush=True)
    raise typer.Exit(1)


def answers() -> None:
    with reader_may_leave():
        print("a line", flush=True)
    raise typer.Exit(1)


def answers_in_one_piece() -> None:
    print("a line")
    raise typer.Exit(1)


def refuses(as_json: Json = False) -> None:
    raise StoreError(f"no such trial: {as_json=}")


COMMANDS = (talks, answers, answers_in_one_piece, refuses)
WORDS = {
    command.__name__: Command(about="", function=f"{__name__}:{command.__name__}")
    for command in COMMANDS
}


@pytest.fixture
def called(monkeypatch):
    def call(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["scalemark", *arguments])
        try:
            return run(WORDS)
        except SystemExit as ended:  # as Typer ends
            return int(ended.code or 0)

    return call


@pytest.mark.parametrize(("command", "code"), [(talks, 0), (answers, 1), (answers_in_one_piece, 1)])
def test_a_reader_that_leaves_is_no_failure_and_hides_no_answer(called, monkeypatch, command, code):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert called(command.__name__) == code


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--json"], "no such trial: as_json=True"),
        (
            ["--json", "--nosuch"],
            "no such option: --nosuch; usage: scalemark refuses [OPTIONS]",
        ),
    ],
)
def test_an_error_is_an_object_where_json_is_asked_for(called, capsys, arguments, error):
    assert called("refuses", *arguments) == 2
    said = capsys.readouterr()
    assert json.loads(said.out) == {"error": error}
    assert error in said.err


def test_an_error_without_json_leaves_stdout_empty(called, capsys):
    assert called("refuses") == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "refuses: no such trial: as_json=False\n")


@pytest.mark.parametrize(("database", "named"), [("runs", False), ("others", True)])
def test_a_command_to_paste_names_the_database_unless_it_is_the_default(
    monkeypatch, database, named
):
    monkeypatch.setenv("SCALEMARK_DB", "postgresql://me:secret@host/runs")
    engine = sa.create_engine(f"postgresql+psycopg://me:secret@host/{database}")
    shown = own_command(engine, "list")
    assert ("--db" in shown) is named
    assert "secret" not in shown

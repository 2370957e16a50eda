"""Runs a command line of ours within the test's process, as a shell would see it."""

import sys
from dataclasses import dataclass

import pytest

from scalemark.cli.commands import COMMANDS, READ_AGAIN
from store.command_line import run, run_db


@dataclass(frozen=True)
class Ended:
    exit_code: int
    stdout: str
    stderr: str


def run_app(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> Ended:
    """Run `scalemark` with these arguments: a command about results, or `db` and one of its."""
    word, *others = arguments
    monkeypatch.setattr(sys, "argv", ["scalemark", *arguments])
    capsys.readouterr()
    try:
        if word == "db":
            monkeypatch.setattr(sys, "argv", ["scalemark db", *others])
            exit_code = run_db()
        else:
            exit_code = run({word: READ_AGAIN if word == "read" else COMMANDS[word]})
    except SystemExit as ended:  # of typer, after usage errors and at its end
        exit_code = int(ended.code or 0)
    reported = capsys.readouterr()
    return Ended(exit_code, reported.out, reported.err)

"""Runs a command line of ours within the test's process, as a shell would see it."""

import sys
from dataclasses import dataclass

import pytest

from store.command_line import App, run


@dataclass(frozen=True)
class Ended:
    exit_code: int
    stdout: str
    stderr: str


def run_app(
    app: App,
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
) -> Ended:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    capsys.readouterr()
    try:
        exit_code = run(app, name)
    except SystemExit as ended:  # of typer, after usage errors and at its end
        exit_code = int(ended.code or 0)
    reported = capsys.readouterr()
    return Ended(exit_code, reported.out, reported.err)

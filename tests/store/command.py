"""Runs `scalemark` for tests, each time in a process of its own, but without starting Python anew."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

FORKER = Path(__file__).with_name("command_forker.py")


def store(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In the current folder, with the current environment, and with nobody at its standard input."""
    forker = _forker()
    assert forker.stdin
    assert forker.stdout
    with tempfile.NamedTemporaryFile() as stdout, tempfile.NamedTemporaryFile() as stderr:
        command = {
            "arguments": arguments,
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
        }
        forker.stdin.write(
            json.dumps(command | {"stdout": stdout.name, "stderr": stderr.name}) + "\n"
        )
        forker.stdin.flush()
        exit_code = int(forker.stdout.readline())
        return subprocess.CompletedProcess(
            ["scalemark", *arguments], exit_code, _text(stdout), _text(stderr)
        )


def _text(file: IO[bytes]) -> str:
    return Path(file.name).read_text(encoding="utf-8")


@cache
def _forker() -> subprocess.Popen[str]:
    """Started with the first command, and ended with the tests."""
    forker = subprocess.Popen(
        [sys.executable, str(FORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(_end, forker)
    return forker


def _end(forker: subprocess.Popen[str]) -> None:
    with forker:
        assert forker.stdin
        forker.stdin.close()

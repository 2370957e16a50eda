"""Runs a program of several processes that must not fall silent: a test of it fails after a quarter of an hour, and says where each is stuck."""

import os
import select
import subprocess
import tempfile
from collections.abc import Sequence

import pytest

from tests import stuck
from tests.conftest import PROJECT

SILENT_S = 900.0  # many times the longest silence where all is well: the import of TensorFlow on a busy machine


def run(command: Sequence[str], silent_s: float = SILENT_S) -> str:
    """What it printed. What it does it tells there, line by line; what it logs is no sign of life."""
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=log, env=os.environ | stuck.TELLS
        ) as process,
    ):
        try:
            printed = _printed(process, silent_s)
        finally:
            process.kill()  # where the test is interrupted, or fails: it has closed what it prints to only in its end
        if exit_code := process.wait():
            log.seek(0)
            pytest.fail(f"it ended with {exit_code}: {log.read()[-3000:]}")
    return printed


def _printed(process: subprocess.Popen[bytes], silent_s: float) -> str:
    assert process.stdout
    printed = b""
    while select.select([process.stdout], [], [], silent_s)[0]:
        part = os.read(process.stdout.fileno(), 65536)
        if not part:
            process.wait()
            return printed.decode()
        printed += part
    pytest.fail(
        f"it printed nothing for {silent_s:g} s, and last {printed[-200:].decode()!r}:\n{stuck.stacks(process.pid)}"
    )

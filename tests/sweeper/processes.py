"""Waits for processes and what they do, without sleeping."""

import os
import re
import select
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scalemark.run_folder import RunFolder
from tests import stuck
from tests.specs import small

PATIENCE_S = 300  # it costs nothing where all is well, and a busy machine may need much


def make_folder(path: Path, script: str) -> RunFolder:
    """A run folder whose trainer is tests/sweeper/starts/scripted.py."""
    folder = RunFolder(path)
    folder.path.mkdir()
    folder.trial.write_text(small().to_json())
    (folder.path / "script.py").write_text(textwrap.dedent(script))
    return folder


def wait_until(reported: Callable[[], bool], descriptor: int) -> None:
    """Until that is true; fails when the process of the pidfd ends before, or runs on for too long."""
    patient_until_s = time.monotonic() + PATIENCE_S
    while not reported():
        has_ended = bool(select.select([descriptor], [], [], 0.01)[0])
        assert reported() or not has_ended, "the process ended before"
        if time.monotonic() > patient_until_s:
            pytest.fail(
                f"waited for {PATIENCE_S} s for what the process does not do:\n{stuck.of_descriptor(descriptor)}"
            )


def hears(pid: int, number: int) -> bool:
    """Whether it has a handler of its own for that signal by now."""
    (caught,) = re.findall(
        r"^SigCgt:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
    )
    return bool(int(caught, 16) >> number - 1 & 1)


def has_begun(pid: int) -> bool:
    """Linux tells command and environment of a new program a moment after it has begun."""
    return Path(f"/proc/{pid}/environ").read_bytes() != b""


def wait_for_end(descriptor: int) -> None:
    if not select.select([descriptor], [], [], PATIENCE_S)[0]:
        pytest.fail(
            f"the process still runs after {PATIENCE_S} s:\n{stuck.of_descriptor(descriptor)}"
        )


def assert_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        wait_for_end(descriptor)
    finally:
        os.close(descriptor)

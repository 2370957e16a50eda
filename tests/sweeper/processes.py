"""Waits for processes and what they do, without sleeping."""

import os
import select
import textwrap
from collections.abc import Callable
from pathlib import Path

from store.records import RunFolder
from tests.specs import small

PATIENCE_S = 20


def make_folder(path: Path, script: str) -> RunFolder:
    """A run folder whose trainer is tests/sweeper/starts/scripted.py."""
    folder = RunFolder(path)
    folder.path.mkdir()
    folder.trial.write_text(small().to_json())
    (folder.path / "script.py").write_text(textwrap.dedent(script))
    return folder


def wait_until(told: Callable[[], bool], descriptor: int) -> None:
    """Until that is true; fails when the process of the pidfd ends before."""
    while not told():
        has_ended = bool(select.select([descriptor], [], [], 0.01)[0])
        assert told() or not has_ended, "the process ended before"


def wait_for_end(descriptor: int) -> None:
    assert select.select([descriptor], [], [], PATIENCE_S)[0], "the process still runs"


def assert_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        wait_for_end(descriptor)
    finally:
        os.close(descriptor)

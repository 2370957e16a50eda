"""The keeper kills the groups it still knows of, and is replaced when somebody kills it."""

import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from sweeper.starts.keeper import Keeper
from tests.slurm import until
from tests.sweeper.processes import assert_gone


@pytest.fixture
def keeper():
    with closing(Keeper()) as keeper:
        yield keeper


@pytest.fixture
def group():
    yield from started()


@pytest.fixture
def other_group():
    yield from started()


def started():
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    yield process
    process.kill()
    process.wait()


def _keepers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if "keeper.py" in [Path(part).name for part in _command(child)]
    ]


def _command(process: psutil.Process) -> list[str]:
    """Empty for one that has ended, be it a zombie still."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def test_closing_kills_the_groups_that_are_listed(keeper, group):
    keeper.add(group.pid)
    keeper.close()
    assert group.wait() == -9


def test_a_keeper_that_was_stopped_holds_nobody_up(keeper, group):
    keeper.add(group.pid)
    (process,) = until(
        _keepers
    )  # Linux tells the command of a new program a moment after it has begun
    process.suspend()
    keeper.close()
    assert group.wait() == -9


def test_a_removed_group_is_left_alone(keeper, group):
    keeper.add(group.pid)
    keeper.remove(group.pid)
    keeper.close()
    assert group.poll() is None


def test_a_killed_keeper_is_replaced_and_told_everything(keeper, group, other_group):
    keeper.add(group.pid)
    (first,) = until(
        _keepers
    )  # Linux tells the command of a new program a moment after it has begun
    first.kill()
    assert_gone(first.pid)
    keeper.add(other_group.pid)
    keeper.close()
    assert (group.wait(), other_group.wait()) == (-9, -9)

"""The keeper kills the groups it still knows of, and is replaced when somebody kills it."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sweeper.starts.keeper import Keeper
from tests.sweeper.processes import assert_gone


@pytest.fixture
def group():
    yield from started()


@pytest.fixture
def other_group():
    yield from started()


def started():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def test_closing_kills_the_groups_that_are_listed(group):
    keeper = Keeper()
    keeper.add(group.pid)
    keeper.close()
    assert group.wait() == -9


def test_a_removed_group_is_left_alone(group):
    keeper = Keeper()
    keeper.add(group.pid)
    keeper.remove(group.pid)
    keeper.close()
    assert group.poll() is None


def test_a_killed_keeper_is_replaced_and_told_everything(group, other_group):
    keeper = Keeper()
    keeper.add(group.pid)
    (first,) = (child for child in psutil.Process().children() if any(Path(part).name == "keeper.py" for part in child.cmdline()))
    first.kill()
    assert_gone(first.pid)
    keeper.add(other_group.pid)
    keeper.close()
    assert (group.wait(), other_group.wait()) == (-9, -9)

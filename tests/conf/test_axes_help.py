"""`python sweep.py --help` says of every axis what it is, and which values it takes."""

import subprocess
import sys

import pytest

from conf.axes_help import WIDTH, axes_help
from conf.schema import AXES_SET_BY_NAME
from tests.conftest import PROJECT


def test_every_axis_stands_there_with_its_meaning():
    reported = " ".join(axes_help().split())
    for axis in AXES_SET_BY_NAME:
        assert f"{axis.name}=" in reported
        assert axis.help in reported
    assert "xla=off (off, on, auto) compile with XLA" in reported
    assert "all_reduce=auto (auto, hierarchical_copy, nccl," in reported
    assert "staged_vars=false use the weights" in reported
    assert "optimizer=momentum (adam, adamw, momentum, rmsprop, sgd) * how gradients" in reported
    assert max(map(len, axes_help().splitlines())) <= WIDTH


@pytest.mark.integration
def test_the_command_prints_it():
    command = [sys.executable, str(PROJECT / "sweep.py"), "--help"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (
        "  gradient_repacking=0\n    number of packs; 0 = one message per tensor\n" in ended.stdout
    )

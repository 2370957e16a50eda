"""Every benchmark still runs: its shortest form ends well and prints what it promises."""

import os
import subprocess
import sys

import pytest

from tests.conftest import PROJECT

pytestmark = pytest.mark.integration

SHORTEST = {
    "orchestrator": (["--quick", "--only", "overhead", "--only", "planning"], "| overhead |"),
    "starts": (["--rounds", "1"], "| store list |"),
    "schedule": (["2"], "strict FIFO"),
}


@pytest.mark.parametrize("name", SHORTEST)
def test_the_shortest_form_of_a_benchmark_prints_its_table(name):
    arguments, wanted = SHORTEST[name]
    ended = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert wanted in ended.stdout

"""Every benchmark still runs: its shortest form ends well and prints what it promises.

`command`, `store` and `gpu` have tests of their own beside this one.
"""

import os
import sys

import pytest

from tests.conftest import PROJECT
from tests.ran import ran

pytestmark = pytest.mark.integration

SHORTEST = {  # arguments, and what stands on stdout
    "orchestrator": (["--quick"], "| idle_cost |"),
    "trainer": (["resnet18_cifar", "--quick"], "| resnet18_cifar | ours |"),
    "plots": (
        ["--rounds", "1", "--scale", "0.005", "--only", "tables", "--databases", "."],
        "--format tidy",
    ),
    "prediction": ([], "doubling"),
    "guard": (["1"], "| 20 % of values and of nights missing |"),
    "racing": (["3"], "| grids | repeats at most |"),
    "advice": (["1"], "| 20 | 60 % behind |"),
    "judge": (["1", "--proposals", "20"], "| gains of 5 % |"),
    "coverage": (["--comparisons", "2"], "| case | intervals |"),
    "slow_replica": (["--times", "5"], "| times vary by |"),
    "verdicts": ([], "| cannot tell | 38 |"),
    "explain": (["--cases", "3", "--mixed", "10"], "| injected | wanted |"),
}


@pytest.mark.parametrize("name", SHORTEST)
def test_the_shortest_form_of_a_benchmark_prints_its_table(name):
    arguments, wanted = SHORTEST[name]
    ended = ran(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert wanted in ended.stdout

"""The benchmark of watched programs compares runs that did the same work."""

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks.command import PAIRS_PER_ROUND
from tests.conftest import PROJECT
from tests.ran import ran


@pytest.mark.integration
def test_each_round_compares_what_it_says():
    ended = ran(
        [sys.executable, "-m", "benchmarks.command", "--quick", "--json", "rows.json"],
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
    )
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(Path("rows.json").read_text())["rows"]
    assert [(row["name"], row["peer"], len(row["pairs"])) for row in rows] == [
        ("1000 steps/s", "bare", PAIRS_PER_ROUND),
        ("1000 steps/s", "limit", 1),
        ("10 steps/s, every 1 shown", "whole run", 1),
        ("10 steps/s, every 1 shown", "same steps", 1),
        ("100 steps/s, every 10 shown", "whole run", 1),
        ("100 steps/s, every 10 shown", "same steps", 1),
    ]

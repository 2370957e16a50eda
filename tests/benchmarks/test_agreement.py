"""The benchmark of agreement compares our number with the program's own, of the same runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT


@pytest.mark.integration
def test_each_run_is_compared_with_the_programs_own_number():
    command = [sys.executable, str(PROJECT / "benchmarks" / "agreement.py"), "--quick"]
    ended = subprocess.run(
        [*command, "--json", "found.json"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(Path("found.json").read_text())["rows"]
    assert [(row["name"], row["peer"], len(row["pairs"])) for row in rows] == [
        ("10 steps/s, every 1 shown", "whole run", 1),
        ("10 steps/s, every 1 shown", "same steps", 1),
        ("100 steps/s, every 10 shown", "whole run", 1),
        ("100 steps/s, every 10 shown", "same steps", 1),
    ]

"""A test run that lacks programs names the scripts that install them, in one line above the closing line of pytest."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT

pytestmark = pytest.mark.integration

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(3))
def test_of_slurm(number):
    pytest.skip("no Slurm programs (srun): run scripts/install-slurm")
def test_of_a_browser():
    pytest.skip("no chromium on PATH: run scripts/install-chromium")
def test_for_root():
    pytest.skip("only root can do that")
def test_that_passes():
    pass
"""


def ends_with(tests: str, *options: str) -> list[str]:
    """The last lines of a run of these tests with the conftest of this project."""
    Path("test_these.py").write_text(tests)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        PROJECT / "pyproject.toml",
        "--rootdir=.",
        "-p",
        "tests.conftest",
        *options,
    ]
    ended = subprocess.run(
        [*command, "test_these.py"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()[-2:]


@pytest.mark.parametrize("num_processes", [0, 2])
def test_scripts_that_would_make_skipped_tests_run_are_named(num_processes: int):
    reported, closing = ends_with(TESTS, f"--numprocesses={num_processes}")
    assert reported == (
        "4 tests were skipped for want of programs, which these scripts install: scripts/install-slurm (3), "
        "scripts/install-chromium (1)"
    )
    assert re.fullmatch(r"=+ 1 passed, 5 skipped in .* =+", closing)


def test_nothing_is_said_where_no_program_is_missing():
    reported, closing = ends_with("def test_that_passes():\n    pass\n", "--numprocesses=0")
    assert "scripts/" not in reported
    assert re.fullmatch(r"=+ 1 passed in .* =+", closing)

"""An error of ours ends a command with a code that is no answer."""

import sys

import pytest

from tests.conftest import PROJECT
from tests.ran import ran

BROKEN = """
import sys
from scalemark.cli import entry_point
sys.path.insert(0, "{project}")
sys.exit(entry_point.run(lambda: 1 // 0))
"""


def test_an_unexpected_error_has_an_exit_code_of_its_own():
    script = BROKEN.format(project=PROJECT)
    ended = ran([sys.executable, "-c", script])
    assert (ended.returncode, ended.stdout) == (70, "")
    assert "ZeroDivisionError" in ended.stderr
    assert "this is an error of scalemark, and no answer" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "began"),
    [
        (("scalemark", "status", "--db", "none.db"), "status: none.db: no such database"),
        (("scalemark", "guard", "--db", "none.db"), "guard: none.db: no such database"),
    ],
)
def test_an_error_begins_with_the_command_that_was_typed(arguments, began):
    ended = ran([sys.executable, "-m", *arguments])
    assert ended.returncode == 2
    assert ended.stderr.startswith(began), ended.stderr

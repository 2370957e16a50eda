"""Columns on a terminal and in a pipe: whole, and without obeying the text in them."""

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

from scalemark.cli.terminal import print_columns
from tests.conftest import PROJECT

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("is_terminal", [True, False])
def test_columns_show_control_characters_and_do_not_obey_them(is_terminal):
    console = Console(file=io.StringIO(), force_terminal=is_terminal, color_system=None, width=120)
    print_columns(
        console,
        ["a\x1b[2J", "b"],
        [["\x1b[31mred", "two\nlines"], [":bomb: [bold]é[/bold] 名", "\u202eabc\x9b0m"]],
    )
    shown = console.file.getvalue()
    header, first, second = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert header.split() == ["a\\x1b[2J", "b"]
    assert first.split() == ["\\x1b[31mred", "two\\nlines"]
    assert second.split() == [":bomb:", "[bold]é[/bold]", "名", "\\u202eabc\\x9b0m"]


def test_columns_are_whole_in_a_pipe_however_long():
    console = Console(file=io.StringIO(), width=100)
    print_columns(console, ["a", "b"], [["x" * 10_000, "end"]])
    assert console.file.getvalue().splitlines()[1] == "x" * 10_000 + "  end"


@pytest.mark.parametrize(
    "reported",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["latin-1", "C"],
)
def test_what_an_encoding_lacks_is_written_as_an_escape(reported):
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys\nfrom scalemark.cli.terminal import tolerate\ntolerate(sys.stdout)\nprint('a \\u2248 b')",
        ],
        env={**os.environ, **reported},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "a \\u2248 b\n"

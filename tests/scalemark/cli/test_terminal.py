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


@pytest.mark.parametrize("command", ["table", "advise", "scaling"])
def test_a_command_of_figures_writes_escapes_where_ascii_is_all_there_is(command):
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "scalemark",
            *command.split(),
            "--origin",
            "published",
            "model=vgg16",
        ],
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        cwd=PROJECT,
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.isascii()


COLUMNS = ["model", "strategy", "images/s [95 % CI]", "batch_size", "sweep"]
ROWS = [
    ["resnet18_cifar", "replicated_pscpu", "1323 [1245, 1406]", "64", "a_name_as_long_as_some"],
    ["vgg16", "ps_cpu on 4 GPUs", "787 [750, 827]", "64", "night"],
]


@pytest.mark.parametrize("width", [88, 80, 60, 50, 30])
def test_a_narrow_terminal_breaks_headings_then_lines_then_names_and_cuts_none(
    width, capsys, snapshot
):
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width)
    print_columns(console, COLUMNS, ROWS, frozenset(["batch_size"]), ["sweep"])
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert [line.rstrip() for line in shown.splitlines()] == snapshot
    is_named = "left out for width: sweep; --json has them" in capsys.readouterr().err
    assert is_named is ("sweep" not in shown)

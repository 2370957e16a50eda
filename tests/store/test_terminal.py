"""Columns on a terminal and in a pipe: whole, and without obeying the text in them."""

import io

import pytest
from rich.console import Console

from store.terminal import print_columns


@pytest.mark.parametrize("is_terminal", [True, False])
def test_columns_show_control_characters_and_do_not_obey_them(is_terminal):
    console = Console(file=io.StringIO(), force_terminal=is_terminal, color_system=None, width=120)
    print_columns(console, ["a\x1b[2J", "b"], [["\x1b[31mred", "two\nlines"], [":bomb: [bold]é[/bold] 名", "\u202eabc\x9b0m"]])
    shown = console.file.getvalue()
    header, first, second = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert header.split() == ["a\\x1b[2J", "b"]
    assert first.split() == ["\\x1b[31mred", "two\\nlines"]
    assert second.split() == [":bomb:", "[bold]é[/bold]", "名", "\\u202eabc\\x9b0m"]


def test_columns_are_whole_in_a_pipe_however_long():
    console = Console(file=io.StringIO(), width=100)
    print_columns(console, ["a", "b"], [["x" * 10_000, "end"]])
    assert console.file.getvalue().splitlines()[1] == "x" * 10_000 + "  end"

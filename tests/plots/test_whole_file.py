"""A file that is written takes the place of the old one when it is whole, and of nothing but a file."""

import os
from pathlib import Path

import pytest

from plots.source import draft_of


def test_the_old_file_stands_until_the_new_one_is_draft_of():
    Path("page.html").write_text("old")
    with draft_of(Path("page.html")) as draft:
        draft.write_text("new")
        assert (Path("page.html").read_text(), draft.suffix) == ("old", ".html")
    assert Path("page.html").read_text() == "new"
    assert list(Path().iterdir()) == [Path("page.html")]


def test_what_fails_half_way_leaves_the_old_file_alone():
    Path("page.html").write_text("old")
    with pytest.raises(OSError, match="full"):
        _write_half(Path("page.html"))
    assert Path("page.html").read_text() == "old"
    assert list(Path().iterdir()) == [Path("page.html")]


def _write_half(path):
    with draft_of(path) as draft:
        draft.write_text("half")
        raise OSError("full")


def test_a_link_is_followed():
    Path("there").mkdir()
    Path("page.html").symlink_to("there/page.html")
    with draft_of(Path("page.html")) as draft:
        draft.write_text("new")
    assert Path("page.html").is_symlink()
    assert Path("there/page.html").read_text() == "new"


def test_a_fifo_is_refused_without_waiting():
    os.mkfifo("pipe")
    with pytest.raises(OSError, match="found a FIFO, wanted a regular file"):
        _write_half(Path("pipe"))
    assert Path("pipe").is_fifo()

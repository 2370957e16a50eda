"""The documents show what there is: every chart, every command, and pictures that exist."""

import re

import pytest

from plots import drawing
from tests.conftest import PROJECT

_, CHARTS = (PROJECT / "docs" / "results.md").read_text().split("## Charts, and how to read them")
README = (PROJECT / "README.md").read_text()


@pytest.mark.parametrize("name", drawing.names())
def test_every_chart_is_explained(name):
    assert f"| `{name}` |" in CHARTS


def test_no_chart_is_explained_that_is_not_there():
    assert set(re.findall(r"^\| `(\w+)` \|", CHARTS, re.MULTILINE)) == set(drawing.names())


@pytest.mark.parametrize("command", ["table", "chart", "report"])
def test_every_command_is_in_the_readme(command):
    assert f"scalemark {command}" in README


@pytest.mark.parametrize(("text", "folder"), [(CHARTS, "docs"), (README, ".")])
def test_every_picture_is_there(text, folder):
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert shown
    assert [name for name in shown if not (PROJECT / folder / name).is_file()] == []

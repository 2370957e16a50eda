"""What docs/answers.md shows is what the commands print; every command is there."""

import re
import shlex

import pytest

from tests.analysis.commands.command import analysis
from tests.conftest import PROJECT

ANSWERS = (PROJECT / "docs" / "answers.md").read_text()
SHOWN = re.findall(r"```text\n\$ scalemark (.*?)\n(.*?)```", ANSWERS, re.DOTALL)


def test_there_is_output_of_both_commands():
    assert [command.split()[0] for command, _ in SHOWN] == ["advise", "scaling"]


@pytest.mark.parametrize(("command", "output"), SHOWN)
def test_what_is_shown_is_what_is_printed(capsys, monkeypatch, command, output):
    ended = analysis(capsys, monkeypatch, *shlex.split(command))
    assert ended.exit_code == 0
    assert ended.stdout.strip().splitlines() == output.strip().splitlines()


@pytest.mark.parametrize("command", ["scaling", "advise"])
def test_both_commands_are_in_the_readme(command):
    assert f"scalemark {command}" in (PROJECT / "README.md").read_text()

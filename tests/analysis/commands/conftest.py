"""What tests of commands share: the command called like a function."""

from functools import partial

import pytest

from tests.analysis.commands.command import analysis


@pytest.fixture(name="analysis")
def run_analysis(capsys, monkeypatch):
    return partial(analysis, capsys, monkeypatch)

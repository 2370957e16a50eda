"""Runs `python -m analysis`, see `tests.app`."""

import re

import pytest

from analysis.__main__ import app
from tests.app import Ended, run_app


def analysis(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> Ended:
    return run_app(app, "analysis", capsys, monkeypatch, *arguments)


def unfolded(text: str) -> str:
    """Return text with each command in one line, and in that of the sentence that it ends."""
    in_a_line = re.sub(r" \\\n +", " ", text)
    return re.sub(r":\n +(?=python sweep\.py)", ": ", in_a_line)

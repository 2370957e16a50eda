"""Runs `python -m analysis`, see `tests.app`."""

import pytest

from analysis.__main__ import app
from tests.app import Ended, run_app


def analysis(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> Ended:
    return run_app(app, "analysis", capsys, monkeypatch, *arguments)

"""Runs `python -m plots`, see `tests.app`."""

import pytest

from plots.__main__ import app
from tests.app import Ended, run_app


def plots(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> Ended:
    return run_app(app, "plots", capsys, monkeypatch, *arguments)

"""Runs `scalemark table`, `chart` and `report`, see `tests.app`."""

import pytest

from tests.app import Ended, run_app


def plots(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> Ended:
    return run_app(capsys, monkeypatch, *arguments)

"""A checkout that was never installed has no version, and every command works in it."""

import sys

import pytest

from scalemark.__main__ import main
from scalemark.host.own_code import NOT_INSTALLED, own_version


@pytest.fixture(autouse=True)
def _asked_anew():
    own_version.cache_clear()
    yield
    own_version.cache_clear()


def test_a_checkout_that_is_not_installed_says_so(monkeypatch, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [])  # where packages are looked for
        assert own_version() == NOT_INSTALLED  # and is kept
    monkeypatch.setattr(sys, "argv", ["scalemark", "--version"])
    assert main() == 0
    assert capsys.readouterr().out == "scalemark not installed\n"

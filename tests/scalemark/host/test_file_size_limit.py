"""The limit of the size of files is named where a write met it."""

import resource
from pathlib import Path

import pytest

from scalemark.host.files import limit_met

KIB_300 = 300 * 1024


@pytest.fixture
def limited(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (KIB_300, KIB_300))


def test_a_file_about_as_large_as_the_limit_met_it(limited, tmp_path: Path):
    (tmp_path / "results.db").write_bytes(b"\0" * KIB_300)
    assert limit_met(tmp_path / "results.db", tmp_path / "results.db-wal") == (
        "files may grow to 300 KiB at most here; raise that limit (ulimit -f)"
    )


def test_without_a_limit_nothing_is_said(tmp_path: Path):
    assert limit_met(tmp_path / "results.db") == ""


def test_a_limit_far_above_the_file_is_not_met(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2**30, 2**30))
    (tmp_path / "results.db").write_bytes(b"\0" * KIB_300)
    assert limit_met(tmp_path / "results.db") == ""

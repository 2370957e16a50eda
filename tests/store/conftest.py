"""A new database, open for writing."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.writer import Writer


@pytest.fixture(scope="session")
def _empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: the migrations take a quarter of a second."""
    path = tmp_path_factory.mktemp("empty") / "r.db"
    Writer(str(path)).close()
    return path


@pytest.fixture
def writer(_empty_database: Path) -> Iterator[Writer]:
    """Of r.db in the current folder."""
    shutil.copy(_empty_database, "r.db")
    opened = Writer("r.db")
    yield opened
    opened.close()

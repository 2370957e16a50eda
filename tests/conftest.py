"""What all tests share: nothing of the user's own folders is touched."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgresql

# Before any test imports TensorFlow.
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"  # channels first on CPUs

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every test runs in an empty folder, with a data cache of its own session, host locks of its own, and no inherited settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("SCALEMARK_LOCK_DIR", str(tmp_path_factory.getbasetemp() / "locks" / tmp_path.name))
    for name in ("SCALEMARK_DB", "CUDA_VISIBLE_DEVICES", "HYDRA_FULL_ERROR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """URL of a PostgreSQL server of this session's own, started when the first test wants it."""
    programs = postgresql.needed_programs(postgresql.find_programs(), in_ci=os.environ.get("CI") == "true")
    with postgresql.server(programs) as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """URL of an empty database, for one test alone."""
    with postgresql.new_database(postgresql_server) as url:
        yield url

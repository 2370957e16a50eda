"""What all tests share: nothing of the user's own folders is touched."""

import os
from pathlib import Path

import pytest

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

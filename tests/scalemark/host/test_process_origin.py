"""A process is ours when it, or one that it descends from, was started for a trial."""

from pathlib import Path

import psutil
import pytest

from scalemark.host.gpu_libraries import started_by_scalemark

PROCESSES = {
    7: (1, ["PATH=/bin", "SCALEMARK_ORCHESTRATOR=5"]),
    8: (7, ["PATH=/bin"]),
    9: (8, None),  # of another user
    20: (1, ["SCALEMARK_CACHE=x", "OTHER_SCALEMARK_ORCHESTRATOR=5"]),
    21: (20, None),
    22: (99, []),  # whose parent has ended
}


@pytest.fixture
def proc(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    (tmp_path / "stat").write_text("btime 1\n")
    for pid, (parent, variables) in PROCESSES.items():
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a (b) c) S {parent}{' 0' * 50}")
        if variables is not None:
            (folder / "environ").write_bytes(b"".join(f"{one}\0".encode() for one in variables))


@pytest.mark.parametrize(
    ("pid", "is_ours"),
    [(7, True), (8, True), (9, True), (20, False), (21, False), (22, False), (99, None)],
)
@pytest.mark.usefixtures("proc")
def test_descent_and_environment_tell_what_is_ours(pid, is_ours):
    assert started_by_scalemark(pid) is is_ours

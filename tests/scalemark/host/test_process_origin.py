"""A process is ours when it, or one that it descends from, was started for a trial."""

from pathlib import Path

import pytest

from scalemark.host.processes import started_by_scalemark

PROCESSES = {
    7: (1, ["PATH=/bin", "SCALEMARK_ORCHESTRATOR=5"]),
    8: (7, ["PATH=/bin"]),
    9: (8, None),  # of another user
    20: (1, ["SCALEMARK_CACHE=x", "OTHER_SCALEMARK_ORCHESTRATOR=5"]),
    21: (20, None),
    22: (99, []),  # whose parent has ended
}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    for pid, (parent, variables) in PROCESSES.items():
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a (b) c) S {parent} 0 0")
        if variables is not None:
            (folder / "environ").write_bytes(b"".join(f"{one}\0".encode() for one in variables))
    return tmp_path


@pytest.mark.parametrize(
    ("pid", "is_ours"),
    [(7, True), (8, True), (9, True), (20, False), (21, False), (22, False), (99, None)],
)
def test_descent_and_environment_tell_what_is_ours(proc, pid, is_ours):
    assert started_by_scalemark(pid, proc) is is_ours

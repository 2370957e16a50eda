"""The scripts that install programs which some tests need."""

import subprocess
from pathlib import Path

from tests.conftest import PROJECT
from tests.ran import ran


def printed_by(name: str) -> str:
    """All that an installer prints where its programs are."""
    ended = subprocess.run([PROJECT / "scripts" / name], capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


def refused_by(name: str, folder: Path, changes: dict[str, str] | None = None) -> str:
    """What an installer says when it is run by a shell that finds no program at all.

    `changes` are made to the script: places where it looks by itself.
    """
    script = (PROJECT / "scripts" / name).read_text()
    for place, other in (changes or {}).items():
        script = script.replace(place, other)
    ended = ran(["/bin/bash", "-c", script], env={"PATH": str(folder)})
    assert ended.returncode == 1
    return ended.stderr

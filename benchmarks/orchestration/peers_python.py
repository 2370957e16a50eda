"""The Python that peers run in: a virtual environment of their own, made once, that sees the
project's packages too.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from benchmarks.orchestration.settings import ROOT, BrokenError

VENV = ROOT / "build" / "orchestrator-peers"
REQUIREMENTS = ROOT / "benchmarks" / "orchestrator-peers.txt"


def peers_python() -> Path:
    """Its interpreter; installed with pip where that was not done, or not with these requirements.

    A .pth file shows it the packages of this Python: TensorFlow and what both need are not
    installed twice. Raises BrokenError.
    """
    stamp, wanted = VENV / "installed.txt", _digest()
    python = VENV / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"  making {VENV} with {REQUIREMENTS.name} (a minute, 0.5 GB)", file=sys.stderr)
    venv.create(VENV, with_pip=True, clear=True)
    (own,) = VENV.glob("lib/python*/site-packages")
    (own / "project.pth").write_text(sysconfig.get_path("purelib") + "\n")
    ended = subprocess.run(
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--requirement",
            REQUIREMENTS,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise BrokenError(
            f"the peers of {REQUIREMENTS} cannot be installed:\n{ended.stderr[-2000:]}"
        )
    stamp.write_text(wanted)
    return python


def _digest() -> str:
    parts = [
        sys.version.encode(),
        sysconfig.get_path("purelib").encode(),
        REQUIREMENTS.read_bytes(),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()

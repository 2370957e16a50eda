"""`python3 install.py`: makes .venv beside this file and installs the pinned packages into it.
Needs Python 3.11+ and pip.

Can be run again: nothing is done when nothing changed. On a machine with an NVIDIA driver
TensorFlow's CUDA libraries come along.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "installed.txt"
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


def main() -> int:
    if sys.version_info < (3, 11):
        print(
            (
                f"install: this is Python {sys.version.split()[0]}; scalemark wants 3.11 or "
                "newer: python3.11 install.py"
            ),
            file=sys.stderr,
        )
        return 2
    os.chdir(ROOT)
    constraints = ["constraints.txt", *(["constraints-cuda.txt"] if NVIDIA_DRIVER.exists() else [])]
    wanted = _digest([*constraints, "pyproject.toml"])
    if STAMP.exists() and STAMP.read_text() == wanted:
        return 0
    print(
        f"install: making {VENV} with {', '.join(constraints)} (a few minutes, 3 GB)",
        file=sys.stderr,
    )
    if VENV.exists() and not STAMP.exists():
        print(
            f"install: {VENV} is not of this installer's making; move it away and run this again",
            file=sys.stderr,
        )
        return 2
    try:
        venv.create(VENV, with_pip=True, clear=True)
    except subprocess.CalledProcessError:
        print(
            (
                "install: this Python cannot make virtual environments; on Debian: apt-get "
                "install python3-venv"
            ),
            file=sys.stderr,
        )
        return 2
    STAMP.write_text("incomplete")
    for name in constraints:
        _pip("install", "--require-hashes", "--requirement", name)
    _pip(
        "install",
        "--no-deps",
        "--no-build-isolation",
        "--config-settings",
        "editable_mode=compat",
        "--editable",
        ".",
    )
    STAMP.write_text(wanted)
    print(f"install: done; {VENV / 'bin' / 'python'} has it all", file=sys.stderr)
    return 0


def _digest(names: list[str]) -> str:
    parts = [
        sys.version.encode(),
        str(ROOT).encode(),
        *((ROOT / name).read_bytes() for name in names),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _pip(*arguments: str) -> None:
    ended = subprocess.run(
        [
            VENV / "bin" / "python",
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            *arguments,
        ],
        check=False,
    )
    if ended.returncode:
        sys.exit(f"install: pip {' '.join(arguments)} failed (above); mend that and run this again")


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python3 install.py", description=__doc__).parse_args()
    sys.exit(main())

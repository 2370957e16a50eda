"""`python3 install.py`: make .venv beside this file and install the pinned packages into it.
`--dev` adds what testing needs. Needs Python 3.11+ and pip.

Can be run again: nothing is done when nothing changed, and what `--dev` added stays. On a machine
with an NVIDIA driver TensorFlow's CUDA libraries come along; with `--cuda` they do anywhere, as
while an image of a container is built.
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
STAMP = VENV / "installed.txt"  # a digest of what was installed for running, one for testing
NVIDIA_DRIVERS = (
    "proc/driver/nvidia/version",
    "usr/lib/wsl/lib/libcuda.so.1",  # WSL2, whose driver is Windows'
)
DEV = ["constraints-dev.txt"]


def main(dev: bool, cuda: bool) -> int:
    if sys.version_info < (3, 11):
        version = sys.version.split()[0]
        return _refuse(
            f"this is Python {version}; scalemark wants 3.11 or newer: python3.11 install.py"
        )
    os.chdir(ROOT)
    running = ["constraints.txt"]
    if cuda or has_driver():
        running.append("constraints-cuda.txt")
    if VENV.is_symlink():
        return _refuse(f"{VENV} is a link to {VENV.resolve()}; remove the link and run this again")
    if VENV.exists() and not STAMP.exists():
        return _refuse(f"{VENV} was not made by this installer; move it away and run this again")
    installed = STAMP.read_text().split() if STAMP.exists() else []
    dev = dev or len(installed) > 1  # what was added for testing is kept when other pins change
    wanted = [_digest([*running, "pyproject.toml"])]
    if dev:
        wanted.append(_digest(DEV))
    if installed == wanted:
        return 0
    # an interrupted run leaves "incomplete", and so goes on with --dev
    pending = ["incomplete"] * (len(wanted) - 1)
    if installed[:1] != wanted[:1]:
        _say(f"making {VENV} with {', '.join(running)} (a few minutes, 3 GB)")
        try:
            venv.create(VENV, with_pip=True, clear=True)
        except subprocess.CalledProcessError:
            return _refuse(
                "this Python cannot make virtual environments; on Debian: apt-get install "
                "python3-venv"
            )
        STAMP.write_text("\n".join(["incomplete", *pending]))
        _install_pins(running)
        editable = ("--config-settings", "editable_mode=compat", "--editable", ".")
        _pip("install", "--no-deps", "--no-build-isolation", *editable)
        STAMP.write_text("\n".join([wanted[0], *pending]))
    if dev:
        _say(f"adding {', '.join(DEV)} to {VENV} (a minute, 0.9 GB)")
        _install_pins(DEV)
    STAMP.write_text("\n".join(wanted))
    _say(f"done; {VENV / 'bin' / 'python'} has it all")
    return 0


def has_driver(root: Path = Path("/")) -> bool:
    return any((root / file).exists() for file in NVIDIA_DRIVERS)


def _install_pins(constraints: list[str]) -> None:
    for name in constraints:
        _pip("install", "--require-hashes", "--requirement", name)


def _digest(names: list[str]) -> str:
    parts = [
        sys.version.encode(),
        str(ROOT).encode(),
        *((ROOT / name).read_bytes() for name in names),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _pip(*arguments: str) -> None:
    command = [VENV / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*command, *arguments], check=False).returncode:
        sys.exit(f"install: pip {' '.join(arguments)} failed (above); mend that and run this again")


def _say(text: str) -> None:
    print(f"install: {text}", file=sys.stderr)


def _refuse(why: str) -> int:
    _say(why)
    return 2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python3 install.py", description=__doc__)
    parser.add_argument("--dev", action="store_true", help="add what testing needs")
    parser.add_argument("--cuda", action="store_true", help="add CUDA also without a driver")
    given = parser.parse_args()
    sys.exit(main(given.dev, given.cuda))

"""Claims the folder of a kit, for one machine and one process at a time, and checks what else it is
given before minutes of work.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from benchmarks.gpu.kit import Kit

_IDENTITY = "box.json"  # what the numbers of a folder were made on
_LOCK = "lock"
_HOLDER = "lock-pid"  # who locks a file may empty it first: the number stands in another


class ClaimError(Exception):
    """Raised for a folder or file that cannot be used. The text says why, and what to do."""


@contextmanager
def claimed(kit: Kit) -> Iterator[None]:
    """Begin or go on in a folder, and keep others out of it. Raises ClaimError."""
    folder = kit.folder
    try:
        _identify(kit)
        lock = filelock.FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
        (folder / _HOLDER).write_text(str(os.getpid()))
    except filelock.Timeout:
        holder = folder / _HOLDER
        pid = holder.read_text() if holder.exists() else "that has just begun"
        raise ClaimError(
            f"--out {folder}: in use by process {pid}; wait for it, or choose another folder"
        ) from None
    except OSError as error:
        raise ClaimError(
            f"--out {folder}: {error.strerror}; choose a folder that can be written"
        ) from None
    try:
        yield
    finally:
        lock.release()


def check_writable(option: str, path: Path) -> None:
    """Raise ClaimError where a file cannot be written."""
    try:
        if path.is_dir():
            raise ClaimError(f"{option} {path}: a folder, wanted a file")
        path.touch()
    except OSError as error:
        raise ClaimError(
            f"{option} {path}: {error.strerror}; choose a file that can be written"
        ) from None


def found_python(name: str) -> str:
    """Return the whole path of --torch-python. Raises ClaimError where it does not start."""
    path = shutil.which(name)
    if path is None:
        raise ClaimError(f"--torch-python {name}: found no such program, wanted a Python")
    try:
        ended = subprocess.run(
            [path, "-c", "import sys; print(sys.version_info[0])"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise ClaimError(f"--torch-python {name}: {error.strerror}; wanted a Python") from None
    if ended.stdout.strip() != "3":
        raise ClaimError(f"--torch-python {name}: found another program, wanted a Python")
    return str(Path(path).absolute())  # not resolved: an environment's is a link


def _identify(kit: Kit) -> None:
    """Write what the numbers of a new folder are made on; compare it in one that is there."""
    identity = {
        "machine": kit.box.machine.key,
        "hardware": kit.box.hardware,
        "gpus": [gpu.uuid for gpu in kit.box.gpus],
    }
    text = json.dumps(identity, indent=1) + "\n"
    path = kit.folder / _IDENTITY
    if path.exists():
        if path.read_text() != text:
            raise ClaimError(
                f"--out {kit.folder}: it has the numbers of another machine or device; choose "
                "another folder"
            )
        return
    if kit.folder.exists() and not kit.folder.is_dir():
        raise ClaimError(f"--out {kit.folder}: a file, wanted a folder")
    if kit.folder.exists() and any(kit.folder.iterdir()):
        raise ClaimError(
            f"--out {kit.folder}: found other files, wanted a new folder or one of the kit's"
        )
    kit.folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

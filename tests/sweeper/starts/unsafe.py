"""Trainers that no server can or may fork: what loading them leaves is known from an environment variable."""

import mmap
import os
import threading
from pathlib import Path

from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from tests.sweeper.starts import scripted
from tests.sweeper.starts.scripted import main

__all__ = ["main", "preload"]

_kept = []


def preload() -> None:
    match os.environ["LEAVES"]:
        case "a thread":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        case "libcuda":
            with Path(os.environ["LIBCUDA"]).open("rb") as file:
                _kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        case "nothing":
            raise ImportError("no TensorFlow here")


if __name__ == "__main__":
    import sys

    from scalemark.host.processes import die_with
    from scalemark.run_folder import RunFolder
    from trainer import own_process

    die_with(int(os.environ[ORCHESTRATOR_VARIABLE]))
    own_process.run_and_exit(scripted.main, Path(sys.argv[1]), RunFolder(Path(sys.argv[2])))

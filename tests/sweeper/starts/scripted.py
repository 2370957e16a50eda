"""In the trainer's environment: runs script.py of the run folder, which finds `folder`, and may set `exit_code`."""

import os
import sys
from pathlib import Path

from scalemark.host.processes import ORCHESTRATOR_VARIABLE, die_with
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from trainer import own_process


def preload() -> None:
    pass


def main(spec: TrialSpec, folder: RunFolder) -> int:
    names = {"folder": folder.path, "spec": spec, "exit_code": 0}
    exec((folder.path / "script.py").read_text(), names)
    return int(names["exit_code"])  # type: ignore[call-overload]  # what a script sets is a number


if __name__ == "__main__":
    die_with(int(os.environ[ORCHESTRATOR_VARIABLE]))
    own_process.heed_signals()
    own_process.run_and_exit(main, Path(sys.argv[1]), RunFolder(Path(sys.argv[2])))

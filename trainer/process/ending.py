"""Runs a trial and ends the process with it, in the same way however it was started."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from scalemark.cli import entry_point
from scalemark.records.attempt import ORCHESTRATOR_VARIABLE
from scalemark.records.outcomes import TRAINER_EXIT_CODES
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder
from trainer.process import own_process

BAD_USAGE = 2
EXIT_CODES = {outcome: code for code, outcome in TRAINER_EXIT_CODES.items()}


def run_by_command(
    main: Callable[[TrialSpec, RunFolder], int], trial: Path, folder: Path
) -> NoReturn:
    """Do as `run_and_exit`, in a process of its own, which dies with the orchestrator's."""
    if orchestrator := os.environ.get(ORCHESTRATOR_VARIABLE):
        own_process.die_with(int(orchestrator))
        own_process.heed_signals()
    sys.exit(entry_point.run(lambda: run_and_exit(main, trial, RunFolder(folder))))


def run_and_exit(
    main: Callable[[TrialSpec, RunFolder], int], trial: Path, folder: RunFolder
) -> NoReturn:
    """Exit with what `main` returns, past the interpreter's exit, which a library may spoil."""
    code = 1
    try:
        code = _run(main, trial, folder)
    except KeyboardInterrupt:
        code = entry_point.INTERRUPTED
    except BaseException:  # a forked trainer must not go on as the server that it was
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def write_into(log: Path) -> None:
    """Send all output of this process to a file from now on."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _run(main: Callable[[TrialSpec, RunFolder], int], trial: Path, folder: RunFolder) -> int:
    try:
        spec = TrialSpec.from_json(trial.read_text())
    except (OSError, ValueError, TypeError) as error:
        print(f"{trial}: {error}; wanted the trial.json of a run folder", file=sys.stderr)
        return BAD_USAGE
    return main(spec, folder)

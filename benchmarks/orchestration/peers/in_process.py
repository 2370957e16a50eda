"""The trainer's public entry called in this process, as often as one likes: for peers that reuse a
process, or make their own.
"""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder


def run_trial(folder: str, trainer: str = "trainer.__main__") -> int:
    """Exit code of the trial in `folder`; its output goes to log.txt there."""
    run_folder = RunFolder(Path(folder))
    with run_folder.log.open("a") as log, redirect_stdout(log), redirect_stderr(log):
        return int(
            import_module(trainer).main(
                TrialSpec.from_json(run_folder.trial.read_text()), run_folder
            )
        )

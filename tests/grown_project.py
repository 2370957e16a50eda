"""A copy of the project with files of a user's own: what an addition takes is what is written here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import PROJECT
from tests.ran import ran

ROOMS = (
    "analysis",
    "conf",
    "hydra_plugins",
    "plots",
    "scalemark",
    "simulator",
    "store",
    "sweeper",
    "trainer",
)


class GrownProject:
    """Its programs run in processes of their own, as a user's."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        """`files`: path in the project -> text."""
        self.folder = folder
        for room in ROOMS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / room, folder / room, ignore=ignored)
        shutil.copy(PROJECT / "sweep.py", folder)
        for path, text in files.items():
            (folder / path).write_text(text)

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        variables = os.environ | {"PYTHONPATH": str(self.folder)}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)  # a copy is compiled once
        return ran([sys.executable, *command], cwd=self.folder, env=variables)

    def sweep(self, *overrides: str) -> "subprocess.CompletedProcess[str]":
        return self.run("sweep.py", *overrides)

    def refused(self, *overrides: str) -> str:
        """What the sweep says."""
        ended = self.sweep(*overrides)
        assert (ended.returncode, ended.stdout) == (2, "")
        return ended.stderr

    def plan(self, *overrides: str) -> list[dict[str, Any]]:
        """Specs of the trials that would run."""
        ended = self.sweep(*overrides, "sweep.dry_run=true", "sweep.plan_format=json")
        assert ended.returncode == 0, ended.stderr
        return [trial["spec"] for trial in json.loads(ended.stdout)["trials"]]

    def answer(self, script: str) -> Any:
        """What a script prints as JSON."""
        ended = self.run("-c", script)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

"""Makes the folders of a sweep and of its attempts, and reads what attempts left in them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.records import Outcome, Placement, Result, RunFolder, StepSample
from store.writer import NewSweep
from sweeper.errors import SweepRefusedError
from sweeper.plan import PlannedTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What an attempt left in its folder, for the database."""

    result: Result
    steps: Sequence[StepSample]
    environment: dict[str, Any] | None


def read_left(folder: RunFolder, result: Result) -> Left:
    """Beside the result. An attempt whose files cannot be read has failed: its result rests on them."""
    try:
        return Left(
            result=result,
            steps=folder.read_steps() if result.measurement else [],
            environment=folder.read_environment(),
        )
    except (ValueError, OSError) as error:
        message = f"{folder.path}: what the trainer left cannot be read: {error}"
        failed = Result(outcome=Outcome.FAILED, message=message, measurement=None, op_placement={})
        return Left(result=failed, steps=[], environment=None)


class RunFolders:
    """`RUNS_DIR/SWEEP/MODEL-STRATEGY-xN-ID-rREPEAT-aATTEMPT/`, and `sweep.json` beside them."""

    def __init__(self, runs_dir: Path, sweep: NewSweep) -> None:
        """Writes down what a lost database could not tell. Raises SweepRefusedError when that cannot be done."""
        self._root, self._machine = runs_dir / sweep.name, sweep.machine
        told = {name: str(getattr(sweep, name)) for name in ("name", "reason", "command", "started_at")}
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            (self._root / "sweep.json").write_text(json.dumps(told, indent=1))
        except OSError as error:
            raise _refused(self._root, error) from error

    def make(self, trial: PlannedTrial, repeat: int, attempt: int, placement: Placement) -> RunFolder:
        """A new folder with the trial, the machine and the placement in it. Raises SweepRefusedError as above."""
        name = f"{trial.label}-{trial.spec.trial_id[:8]}-r{repeat}-a{attempt}"
        names = itertools.chain([name], (f"{name}-{count}" for count in itertools.count(2)))  # of another database's sweep
        folder = RunFolder(next(path for path in map(self._root.joinpath, names) if not path.exists()))
        try:
            folder.path.mkdir(parents=True)
            folder.trial.write_text(trial.spec.to_json())
            folder.machine.write_text(self._machine.to_json())
            folder.placement.write_text(placement.to_json())
        except OSError as error:
            raise _refused(folder.path, error) from error
        return folder


def _refused(path: Path, error: OSError) -> SweepRefusedError:
    return SweepRefusedError(f"{path}: {error.strerror}; make room or choose another folder with store.runs_dir=")

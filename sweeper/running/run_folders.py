"""Makes the folders of a sweep and of its attempts, and reads what attempts left in them."""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from scalemark.records.attempt import AttemptBegin, AttemptEnd, Placement, RankLimits
from scalemark.records.machine import Machine
from scalemark.records.measurement import AttemptResult
from scalemark.records.outcomes import Outcome
from scalemark.records.sweep import SweepRecord
from scalemark.records.validation import parsed
from scalemark.run_folder import (
    SWEEP_FILE,
    Left,
    RunFolder,
    left_of_failed,
    read_left,
    read_regular,
)
from scalemark.text.wording import safe_name
from store.rows import FinishedAttempt
from sweeper.errors import SweepRefusedError
from sweeper.planning.plan import PlannedTrial

_PARTED = re.compile("[ ,]+")  # what shells and people would part a name at


def recorded_left(folder: RunFolder, result: AttemptResult) -> Left:
    """Read the files of an ended attempt; it has failed where they are refused, for its result
    rests on them.
    """
    try:
        return read_left(folder, result)
    except (ValueError, OSError) as error:
        return left_of_failed(folder, Outcome.FAILED, f"what the trainer left is refused: {error}")


def write_end(folder: RunFolder, finished: FinishedAttempt, ended_at: datetime) -> None:
    """Write what the database will hold, before it does: it is rebuilt from this.

    A folder that was removed keeps nothing. Raises SweepRefusedError when there is no room.
    """
    if not folder.path.is_dir():
        return
    result = finished.result
    ended = AttemptEnd(
        exit_code=finished.exit_code,
        duration_s=finished.duration_s,
        ended_at=ended_at,
        placement=finished.placement,
        outcome=result.outcome,
        message=result.message,
        result=None if result == _readable_result(folder) else result,
    )
    try:
        folder.write(folder.ended, ended.to_json())
    except OSError as error:
        raise _refused(folder.path, error) from error


def read_end(folder: RunFolder) -> AttemptEnd | None:
    """Return the end; None also when a crash of the machine has damaged it."""
    try:
        return folder.read_ended()
    except (ValueError, OSError):
        return None


def _readable_result(folder: RunFolder) -> AttemptResult | None:
    try:
        return folder.read_result()
    except (ValueError, OSError):
        return None


class RunFolders:
    """`RUNS_DIR/SWEEP/MODEL-STRATEGY-xN-ID-rREPEAT-aATTEMPT/`, and `sweep.json` beside them.

    The second sweep of a name, of another database, has the folder SWEEP-2: `sweep.json` names the
    owner of a folder.
    """

    def __init__(
        self,
        runs_dir: Path,
        sweep: SweepRecord,
        machine: Machine,
        software_key: str,
    ) -> None:
        """Make the folder, and write down what a lost database could not say. Raises
        SweepRefusedError.
        """
        self._sweep, self._machine, self._software_key = sweep, machine, software_key
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            self.path = _folder_of(sweep.uid, _candidates(runs_dir, sweep.name))
        except OSError as error:
            raise _refused(runs_dir / sweep.name, error) from error
        try:
            _write_synced(self.path / SWEEP_FILE, sweep.to_json())
        except OSError as error:
            with suppress(OSError):  # unless it is in use already
                self.path.rmdir()
            raise _refused(self.path, error) from error

    def make(
        self,
        trial: PlannedTrial,
        repeat: int,
        attempt: int,
        placement: Placement,
        started_at: datetime,
        rank_limits: RankLimits | None = None,
    ) -> RunFolder:
        """Make a folder that says all of the attempt but what comes of it.

        `rank_limits` are for attempts of several processes. Raises SweepRefusedError.
        """
        label = _PARTED.sub("_", safe_name(trial.label))
        name = f"{label}-{trial.spec.trial_id[:8]}-r{repeat}-a{attempt}"
        folder = RunFolder(next(path for path in _candidates(self.path, name) if not path.exists()))
        begin = AttemptBegin(
            sweep_uid=self._sweep.uid,
            sweep=self._sweep.name,
            trial_id=trial.spec.trial_id,
            repeat=repeat,
            attempt=attempt,
            started_at=started_at,
            software_key=self._software_key,
        )
        try:
            # a program may print secrets, or write them beside its log
            folder.path.mkdir(mode=0o700 if trial.spec.command else 0o777, parents=True)
            folder.trial.write_text(trial.spec.to_json())
            folder.machine.write_text(self._machine.to_json())
            folder.placement.write_text(placement.to_json())
            folder.attempt.write_text(begin.to_json())
            if rank_limits:
                folder.rank_limits.write_text(rank_limits.to_json())
        except OSError as error:
            raise _refused(folder.path, error) from error
        return folder


def _candidates(parent: Path, name: str) -> Iterator[Path]:
    """Yield NAME, NAME-2, NAME-3, ...: folders of others are left alone."""
    yield parent / name
    for count in itertools.count(2):
        yield parent / f"{name}-{count}"


def _folder_of(sweep_uid: str, candidates: Iterator[Path]) -> Path:
    """Find the folder of this sweep, or make one: of two sweeps that begin at once one gets it.

    Raises OSError.
    """
    for path in candidates:
        try:
            path.mkdir()
        except FileExistsError:
            if _uid_in(path / SWEEP_FILE) != sweep_uid:
                continue
        return path
    raise AssertionError("there is always another candidate")


def _uid_in(path: Path) -> str | None:
    """Return the sweep that a folder belongs to; None where its `sweep.json` does not say."""
    try:
        sweep = parsed(read_regular(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return sweep.get("uid") if isinstance(sweep, dict) else None


def _write_synced(path: Path, text: str) -> None:
    """Replace a file at once and whole. Once per command, so it may wait for the disk."""
    draft = path.with_suffix(".draft")
    try:
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _refused(path: Path, error: OSError) -> SweepRefusedError:
    remedy = "raise the limit of the size of files (ulimit -f)"
    if error.errno != errno.EFBIG:
        remedy = "make room"
    return SweepRefusedError(
        f"{path}: {error.strerror}; {remedy} or choose another folder with store.runs_dir="
    )

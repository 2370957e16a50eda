"""Makes run folders, reads what attempts left in them, and records what killed loops finished."""

import errno
import itertools
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from scalemark import run_folder
from scalemark.host.orphans import end_started_by
from scalemark.host.own_code import typed
from scalemark.host.processes import is_alive, is_visible, this_process
from scalemark.records.attempt import AttemptBegin, AttemptEnd, Placement, RankLimits, SweepRecord
from scalemark.records.machine import Machine
from scalemark.records.measurement import AttemptResult, Outcome
from scalemark.records.references import Rejected
from scalemark.records.validation import parsed
from scalemark.run_folder import Left, RunFolder, readable
from scalemark.text.wording import counted, safe_name
from store import ledger, rebuild, schema
from store.database import reading
from store.errors import StoreError
from store.rows import FinishedAttempt
from sweeper import SweepRefusedError
from sweeper.grid.plan import PlannedTrial

_END_WITHIN_S = 30.0  # what held devices: the kernel may be freeing much memory
_PARTED = re.compile("[ ,]+")  # what shells and people would part a name at


def recorded_left(folder: RunFolder, result: AttemptResult) -> Left:
    """Read the files of an ended attempt, which has failed where they are refused."""
    try:
        return run_folder.read_left(folder, result)
    except (ValueError, OSError) as error:
        message = f"what the trainer left is refused: {error}"
        return run_folder.left_of_failed(folder, Outcome.FAILED, message)


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
        result=None if result == readable(folder.read_result) else result,
    )
    try:
        folder.write(folder.ended, ended.to_json())
    except OSError as error:
        raise _refused(folder.path, error) from error


class RunFolders:
    """`RUNS_DIR/SWEEP/MODEL-STRATEGY-xN-ID-rREPEAT-aATTEMPT/`, and `sweep.json` beside them.

    The second sweep of a name, of another database, has the folder SWEEP-2: `sweep.json` names the
    owner of a folder.
    """

    def __init__(
        self, runs_dir: Path, sweep: SweepRecord, machine: Machine, software_key: str
    ) -> None:
        """Make the folder, with what a lost database could not say. Raises SweepRefusedError."""
        self._sweep, self._machine, self._software_key = sweep, machine, software_key
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)
            self.path = _folder_of(sweep.uid, _candidates(runs_dir, sweep.name))
        except OSError as error:
            raise _refused(runs_dir / sweep.name, error) from error
        try:
            RunFolder(self.path).write(self.path / run_folder.SWEEP_FILE, sweep.to_json())
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


def take_up_lost(engine: sa.Engine, runs_dir: Path, name: str) -> rebuild.Rebuilt:
    """Add the attempts of a sweep that its folder has and the database does not: a power cut, or a
    backup that was put back, took them from it. Raises StoreError.

    While a folder has no attempt that can be recorded, each command reads all of them again.
    """
    rebuilt = rebuild.Rebuilt()
    table = schema.SweepRow
    with reading(engine) as connection:
        sweep = connection.execute(sa.select(table.id, table.uid).where(table.name == name)).first()
        if sweep is None:
            if (runs_dir / name / run_folder.SWEEP_FILE).exists():
                again = shlex.join([*typed("db rebuild").split(), str(runs_dir / name)])
                reason = f"this database does not know it; where it was lost, {again} adds it"
                rebuilt.rejected.append(Rejected(where=str(runs_dir / name), reason=reason))
            return rebuilt
        attempts = sa.select(sa.func.count()).where(schema.AttemptRow.sweep_id == sweep.id)
        num_known = connection.scalar(attempts) or 0
    for path in itertools.takewhile(Path.is_dir, _candidates(runs_dir, name)):
        try:
            is_ours = _uid_in(path / run_folder.SWEEP_FILE) == sweep.uid
            if is_ours and sum(entry.is_dir() for entry in os.scandir(path)) > num_known:
                rebuild.take_up(engine, path, rebuilt)
        except OSError as error:
            rebuilt.rejected.append(Rejected(where=str(path), reason=str(error.strerror)))
    return rebuilt


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
            if _uid_in(path / run_folder.SWEEP_FILE) != sweep_uid:
                continue
        return path
    raise AssertionError("there is always another candidate")


def _uid_in(path: Path) -> str | None:
    """Return the sweep that a folder belongs to; None where its `sweep.json` does not say."""
    try:
        sweep = parsed(run_folder.read_regular(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    if isinstance(sweep, dict):
        return sweep.get("uid")
    return None


def _refused(path: Path, error: OSError) -> SweepRefusedError:
    remedy = "raise the limit of the size of files (ulimit -f)"
    if error.errno != errno.EFBIG:
        remedy = "make room"
    return SweepRefusedError(
        f"{path}: {error.strerror}; {remedy} or choose another folder with store.runs_dir="
    )


@dataclass(slots=True, kw_only=True)
class Recovered:
    """The work of dead orchestrators that was recorded or freed."""

    num_orchestrators: int
    num_completed: int = 0  # attempts that had ended, and only were not recorded
    num_interrupted: int = 0  # attempts that had not: their repeats are pending again
    # of single repeats; the others are closed all the same
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"cut off earlier: {counted(self.num_orchestrators, 'sweep')}"]
        if self.num_completed:
            finished = counted(self.num_completed, "attempt")
            is_ = "is" if self.num_completed == 1 else "are"
            parts.append(f"{finished} had finished, and {is_} recorded")
        if self.num_interrupted:
            unfinished = counted(self.num_interrupted, "attempt")
            parts.append(f"{unfinished} had not finished: its command runs what is missing")
        if len(parts) == 1 and not self.problems:
            parts.append("none of their processes were running")
        return "; ".join([*parts, *self.problems])


def recover(engine: sa.Engine) -> Recovered | None:
    """Close what dead orchestrators left in this database; None when there are none.

    What is wrong with one repeat does not stop the others. Raises StoreError for what is wrong with
    the database.
    """
    dead = []
    for orchestrator_id, process, beat_at in ledger.unended(engine):
        if not is_alive(process, beat_at):
            dead.append(orchestrator_id)
    if not dead:
        return None
    closed = Recovered(num_orchestrators=len(dead))
    for repeat in ledger.abandoned(engine, dead):
        try:
            outcome = _close_one(engine, repeat, closed.problems)
        except (OSError, SweepRefusedError) as error:
            closed.problems.append(f"{_named(repeat)}: {error}; it is left for the next command")
            continue
        if outcome is Outcome.INTERRUPTED:
            closed.num_interrupted += 1
        elif outcome:
            closed.num_completed += 1
    ledger.end_abandoned(engine, dead, datetime.now(UTC))
    return closed


def _close_one(engine: sa.Engine, repeat: ledger.Abandoned, problems: list[str]) -> Outcome | None:
    """Return how its attempt ended; None when it had none, or somebody else was faster.

    A result that the database refuses has failed. Raises OSError, or SweepRefusedError when its
    folder has no room.
    """
    if repeat.pid is not None and is_visible(repeat.owner, this_process()):
        for starter in (repeat.owner.pid, repeat.pid):
            end_started_by(starter, _END_WITHIN_S)
    finished = _finished(repeat) if repeat.run_dir else None
    try:
        is_ours = ledger.close_abandoned(engine, repeat, finished)
    except (StoreError, sa.exc.SQLAlchemyError, ValueError, TypeError, OverflowError) as error:
        if finished is None or not ledger.refuses_a_row(error):
            raise
        message = f"the database refuses what its run folder holds: {type(error).__name__}: {error}"
        folder = RunFolder(Path(finished.run_dir))
        failed = run_folder.left_of_failed(folder, Outcome.FAILED, message)
        finished = replace(finished, result=failed.result, steps=[], environment=None)
        is_ours = ledger.close_abandoned(engine, repeat, finished)
        # not before: the database may have refused it for another reason
        _write_end(folder, finished)
        problems.append(f"{_named(repeat)} failed: {message}")
    if is_ours and finished:
        return Outcome(finished.result.outcome)
    return None


def _named(repeat: ledger.Abandoned) -> str:
    return f"repeat {repeat.repeat} of trial {repeat.trial_id[:8]} ({repeat.run_dir})"


def _finished(repeat: ledger.Abandoned) -> FinishedAttempt:
    """Read the end of an attempt from its run folder.

    The trainer writes its result whole, before it ends, and its orchestrator how that ended.
    Without a result the attempt was interrupted.
    """
    assert repeat.run_dir is not None
    assert repeat.placement is not None
    assert repeat.started_at is not None
    folder = RunFolder(Path(repeat.run_dir))
    end, left = _read(folder)
    finished = FinishedAttempt(
        trial_id=repeat.trial_id,
        repeat=repeat.repeat,
        attempt=repeat.attempt,
        exit_code=end.exit_code if end else None,
        placement=end.placement if end else placement_of(folder, repeat.placement),
        run_dir=repeat.run_dir,
        started_at=repeat.started_at,
        duration_s=end.duration_s if end else None,
        result=left.result,
        steps=left.steps,
        environment=left.environment,
    )
    if end is None:
        _write_end(folder, finished)
    return finished


def _write_end(folder: RunFolder, finished: FinishedAttempt) -> None:
    """Write how it ended, unless the folder is another user's: the database is what counts.

    Raises SweepRefusedError.
    """
    if os.access(folder.path, os.W_OK):
        write_end(folder, finished, datetime.now(UTC))


def _read(folder: RunFolder) -> tuple[AttemptEnd | None, Left]:
    """Return what its orchestrator and its trainer left; without a result it was interrupted.

    Files that a crash of the machine has damaged are no result, and then the orchestrator's word
    does not count either.
    """
    end, message = readable(folder.read_ended), ledger.KILLED
    try:
        result = (end and end.result) or folder.read_result()
        if result:
            return end, run_folder.read_left(folder, result)
    except (ValueError, OSError) as error:
        message += f", and what it left cannot be read: {error}"
    return None, run_folder.left_of_failed(folder, Outcome.INTERRUPTED, message)


def placement_of(folder: RunFolder, planned: Placement) -> Placement:
    """Return the placement as it came to be: forking may not have been possible, and what started
    it elsewhere may have noted its hosts.
    """
    return readable(folder.read_placement) or planned
